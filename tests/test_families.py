"""Families are data: their files, what they claim, the language of names, and models made from them."""

import re

import numpy as np
import pytest

from attest.adapters.names import flat, place_of, places, view
from attest.contract import Config
from attest.contract.claims import claims_of
from attest.contract.parameters import shapes
from attest.declared import misdeclared
from attest.families import FamilyError, families, family_named, read_family
from attest.families.reading import directory
from attest.reference.oracle import expected, random_parameters
from attest.registry import UsageError, load, parse_request
from attest.starters import family_starter

SIZES = {"d_model": 16, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "max_len": 32}
VOCABULARIES = {"source_vocab": 11, "target_vocab": 11}
HEADS = {"num_kv_heads": 2, "head_width": 6, "rotary_base": 500000.0}
CHOSEN = {
    "llama": HEADS,
    "qwen2": HEADS,
    "llama3": {**HEADS, "rotary_original": 64, "rotary_fast_turns": 4.0},
    "mistral": {**HEADS, "window": 3},
    "gpt_neox": {"rotary_fraction": 0.5},
    "t5": {"projection_scale": 0.25},
}


class Port:
    name = "port"
    dtypes = ("float32",)

    def __init__(self, declared):
        self.families = declared

    def language_model(self, config):
        raise NotImplementedError


def config_of(name, **changes):
    return family_named(name).config(**{**SIZES, **VOCABULARIES, **CHOSEN.get(name, {}), **changes})


def test_the_families_that_are_there():
    assert list(families()) == [
        "bert",
        "bloom",
        "gpt2",
        "gpt_neox",
        "llama",
        "llama3",
        "mistral",
        "qwen2",
        "t5",
    ]


@pytest.mark.parametrize("name", families())
def test_every_parameter_has_a_name_elsewhere(name):
    family = family_named(name)
    config = config_of(name, tie=True)
    assert family.names_for(config).keys() == shapes(family.operation, config).keys()


def test_a_family_inherits_what_it_does_not_say():
    llama, qwen = family_named("llama"), family_named("qwen2")
    assert qwen.fixed == {**llama.fixed, "qkv_bias": True}
    assert qwen.huggingface.fields["rms_norm_eps"] == "norm_eps"
    assert qwen.huggingface.model == "Qwen2ForCausalLM"


def test_a_port_claims_its_family_and_nothing_else():
    claims = claims_of(Port(("llama",)))
    inside = config_of("llama")
    assert claims.outside("language_model", inside) == ""
    assert claims.outside("language_model", inside.but(gated=False)) == (
        "language_model with gated=False is not claimed"
    )
    assert claims.outside("transformer", inside) == "transformer is not among the operations that are claimed"
    assert claims.promises("language_model", inside)
    assert {"rotary", "rms", "grouped"} <= claims.features
    assert "window" not in claims.features


def test_a_port_may_narrow_its_family():
    claims = claims_of(Port({"llama": {"tie": (False,)}}))
    assert claims.outside("language_model", config_of("llama", tie=False)) == ""
    assert "tie=True is not claimed" in claims.outside("language_model", config_of("llama", tie=True))


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ("llama", "families='llama' is no list of families"),
        (("lama",), "families names 'lama', which is no family; did you mean llama?"),
        ({"llama": {"gated": (False,)}}, "families['llama']['gated'] has False; the family has (True,)"),
        ({"llama": {"tied": (False,)}}, "families['llama'] names 'tied', no option; did you mean tie?"),
        ({"llama": 3}, "families['llama']=3 is no mapping"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(declared, fault):
    assert fault in misdeclared(Port(declared))


def test_an_unknown_family_has_a_nearest_one():
    with pytest.raises(UsageError, match=r"family='lama' is unknown; did you mean llama\?"):
        family_named("lama")


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ("hf:lama", "family='lama' is unknown; did you mean llama?"),
        ("hf:", "family='' is unknown"),
        (
            "hf:bloom,attention=sdpa",
            "asks for an attention that BloomForCausalLM does not have; use one of eager",
        ),
    ],
)
def test_a_class_of_transformers_that_is_not_there_is_one_sentence(attest, asked, fault):
    code, out, errors = attest("run", "--impl", asked, "--milestone", "M9")
    assert (code, out) == (2, "")
    assert fault in errors
    assert len(errors.splitlines()) == 1


def test_a_class_of_transformers_needs_transformers(monkeypatch):
    monkeypatch.setattr("attest.registry._is_module", lambda name: name != "transformers")
    with pytest.raises(UsageError, match="--impl=hf:llama needs transformers, which is not installed; pip"):
        parse_request("hf:llama")


GOOD = """
title = "mine"
inherits = "llama"
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("colour = 1", "mine.toml: colour is not a key of a family"),
        (
            GOOD + "[fixed]\nwindows = 3",
            "fixed.windows is no option of the config; did you mean window?",
        ),
        (GOOD + "[fixed]\nnorm = 'after'", "mine.toml: fixed.norm='after' is unknown; use one of post, pre"),
        (GOOD + "[fixed]\ntie = 1", "mine.toml: fixed.tie=1 is of the wrong kind"),
        (GOOD + "[fixed]\ntie = true", "mine.toml: free.tie is in fixed too; keep one of them"),
        (GOOD + "[free]\ntie = []", "mine.toml: free.tie=[] is no list of values"),
        (
            GOOD + '[names]\n"decoder.norms.weight" = "x"',
            "names.'decoder.norms.weight' maps nowhere",
        ),
        (GOOD + '[names]\n"projection.weight" = "model.norm.weight"', "is two names for one tensor"),
        (GOOD + '[names]\n"decoder.{i}.norm0.weight" = "x"', "{i} stands on one side only"),
        (GOOD + "[huggingface.fields]\nhidden = 'width'", "huggingface.fields.hidden='width' is no field"),
        ("title = 'a'\ninherits = '../llama'", "inherits='../llama' names no other family"),
        ("title = 'a'\noperation = 'language_models'", "mine.toml: operations is no list of texts"),
        ("title = [", "mine.toml: not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_file_key_and_remedy(tmp_path, text, fault):
    (tmp_path / "llama.toml").write_text((directory() / "llama.toml").read_text())
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(FamilyError) as error:
        read_family(tmp_path / "mine.toml")
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


def test_names_packed_by_head_and_permuted_pairs():
    config = Config(d_model=12, num_heads=2)
    packed = np.arange(2 * 3 * 6 * 4).reshape(36, 4)
    middle = flat(view(packed, place_of("qkv[1/3 of H]", {"qkv"}), config), packed)
    assert np.array_equal(middle, packed.reshape(2, 3, 6, 4)[:, 1].reshape(12, 4))
    stored = np.arange(12 * 4).reshape(12, 4)  # rows of a head: a0 b0 a1 b1 a2 b2
    halves = flat(view(stored, place_of("q.pairs", {"q"}), config), stored)
    assert np.array_equal(halves[:6], stored[[0, 2, 4, 1, 3, 5]])
    assert place_of("norm+1", {"norm"}).shift == 1.0


def stored_apart(order, packed):
    """Queries, keys and values of four heads over two key heads of width 6, and how they are stored."""
    config = Config(d_model=8, num_heads=4, num_kv_heads=2, head_width=6)
    rng = np.random.default_rng(0)
    parts = {letter: rng.normal(size=(24 if letter == "q" else 12, 8)) for letter in order}
    if not packed:
        return config, parts, np.concatenate([parts[letter] for letter in order])
    by_group = [[part.reshape(2, -1, 8)[group] for part in parts.values()] for group in range(2)]
    return config, parts, np.concatenate([np.concatenate(group) for group in by_group])


@pytest.mark.parametrize("packed", [False, True], ids=["one_after_the_other", "by_key_head"])
@pytest.mark.parametrize("order", ["qkv", "kqv", "kv"])
def test_fused_maps_with_fewer_key_heads(order, packed):
    config, parts, stored = stored_apart(order, packed)
    suffix = " of G]" if packed else "]"
    for letter, wanted in parts.items():
        name = f"qkv[{letter} of {','.join(order)}{suffix}"
        place = place_of(name, {"qkv"})
        assert place.owned == ("qkv",)
        np.testing.assert_array_equal(flat(view(stored, place, config), stored), wanted)
        bias = stored[:, 0].copy()
        np.testing.assert_array_equal(flat(view(bias, place, config), bias), wanted[:, 0])


@pytest.mark.parametrize(
    "name", ["w[q of q,k,v].pairs", "w[q of q,k,v of G].pairs", "w[0/3 of H].pairs", "w[0/3].pairs"]
)
def test_values_are_written_through_every_chain_of_steps(name):
    """A step that copied would lose what is loaded, in silence."""
    torch = pytest.importorskip("torch")
    from attest.adapters.torch import TorchComponent

    grouped = "q,k,v" in name
    config = Config(
        d_model=8, num_heads=4, num_kv_heads=2 if grouped else None, head_width=6, bias=False, dtype="float64"
    )
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.zeros(48 if grouped else 72, 8))
    component = TorchComponent(module, config, {"query.weight": name})
    wanted = np.random.default_rng(0).normal(size=(24, 8))
    component.load({"query.weight": wanted})
    np.testing.assert_array_equal(component.parameters()["query.weight"], wanted)
    assert int((module.w != 0).any(1).sum()) == 24


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("qkv[q of k,v]", "must name one of different parts; write it as [k of q,k,v]"),
        ("qkv[k of k,k]", "must name one of different parts"),
        ("qkv[k of q,k]", "[k of q,k] wants an axis of 36, not 48; check the suffix"),
        ("qkv[k of q,k of G]", "[k of q,k] wants an axis of 36, not 48"),
    ],
)
def test_a_fused_name_that_does_not_fit_is_one_sentence(name, fault):
    config, _, stored = stored_apart("qkv", packed=False)
    with pytest.raises(ValueError, match=re.escape(fault)):
        view(stored, place_of(name, {"qkv"}), config)


def test_names_for_every_layer_and_alternatives():
    owned = {"layers.0.wi_1", "layers.1.wi_1", "other"}
    found = places({"d.{i}.inner": "layers.{i}.wi | layers.{i}.wi_1"}, owned)
    assert {name: place.owned for name, place in found.items()} == {
        "d.0.inner": ("layers.0.wi_1",),
        "d.1.inner": ("layers.1.wi_1",),
    }


def test_the_network_of_bloom_has_the_width_that_is_asked_for():
    pytest.importorskip("transformers")
    from attest.adapters.huggingface import transformers_model

    config = config_of("bloom", d_ff=24)
    found = transformers_model(family_named("bloom"), config).parameters()
    assert {n: x.shape for n, x in found.items()} == dict(shapes("language_model", config))


def test_the_width_of_a_head_is_not_rounded_for_transformers():
    pytest.importorskip("transformers")
    from attest.adapters.huggingface import transformers_settings

    with pytest.raises(ValueError, match="num_heads=3 does not divide d_model=16; choose a divisor of 16"):
        transformers_settings(family_named("t5"), config_of("t5", num_heads=3, head_width=None))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", families())
def test_the_class_of_transformers_agrees_with_the_reference(name, attention):
    pytest.importorskip("transformers", reason="transformers is not installed (extra peers)")
    from attest_impls.huggingface import HuggingFace

    family, subject = family_named(name), HuggingFace(name)
    if attention not in family.huggingface.attentions:
        pytest.skip(f"transformers has no {attention} for {name}")
    subject.options = (("attention", attention),)
    config = config_of(name)
    rng = np.random.default_rng(1)
    parameters = random_parameters(family.operation, config, rng)
    model = getattr(subject, family.operation)(config)
    model.load(parameters)
    ids = rng.integers(4, 11, (3, 7))
    streams = {"source": ids, "target": ids[:, :5]} if family.operation == "transformer" else {"ids": ids}
    wanted = expected(family.operation, config, parameters, streams)["logits"]
    assert (np.abs(model(**streams)["logits"] - wanted.value) / wanted.bound).max() < 1
    assert model.parameters().keys() == parameters.keys()
    for key, value in model.parameters().items():
        np.testing.assert_array_equal(value, parameters[key])


@pytest.mark.parametrize("name", sorted(families()))
def test_the_start_of_a_port_is_a_right_model_of_its_family(name, tmp_path):
    path = tmp_path / f"my_{name}.py"
    path.write_text(family_starter(family_named(name), f"my_{name}"))
    implementation = load(parse_request(str(path)))[0]
    assert misdeclared(implementation) == ""
    config, rng = config_of(name), np.random.default_rng(2)
    operation = family_named(name).operation
    parameters = random_parameters(operation, config, rng)
    model = getattr(implementation, operation)(config)
    model.load(parameters)
    ids = rng.integers(4, 11, (3, 9))
    ids[1, 7:] = 0  # padded on the right
    streams = {"source": ids, "target": ids[:, :6]}
    if operation != "transformer":
        ids[0, :3] = 0  # and on the left
        streams = {"ids": ids}
    wanted = expected(operation, config, parameters, streams)["logits"]
    seen = model(**streams)["logits"]
    real = list(streams.values())[-1] != 0
    assert (np.abs(seen - wanted.value) / wanted.bound)[real].max() < 1


def test_the_start_of_a_t5_has_a_gate_where_the_config_has_one(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(family_starter(family_named("t5"), "mine"))
    port = load(parse_request(str(path)))[0]
    config = config_of("t5").but(gated=True, activation="gelu_tanh", relative_buckets=8, relative_distance=20)
    parameters = random_parameters("transformer", config, np.random.default_rng(3))
    model = port.transformer(config)
    model.load(parameters)
    ids = np.random.default_rng(4).integers(4, 11, (2, 30))  # far enough for the last bucket
    wanted = expected("transformer", config, parameters, {"source": ids, "target": ids})["logits"]
    seen = model(source=ids, target=ids)["logits"]
    assert (np.abs(seen - wanted.value) / wanted.bound).max() < 1


def test_a_start_of_an_unknown_family_is_not_written(attest, tmp_path):
    code, _, errors = attest("new", "--family", "lama", "x")
    assert code == 2
    assert "did you mean llama?" in errors
    assert list(tmp_path.iterdir()) == []
