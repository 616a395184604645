"""attest compare: a checkpoint read as data, and where a port of it goes wrong."""

import base64
import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from attest.adapters.checkpoints import Checkpoint, CheckpointError
from attest.contract.parameters import shapes
from attest.diagnosis.compare import Activation, Findings, examine
from attest.diagnosis.likeness import Diagnosis
from attest.diagnosis.resemblance import nearest_defects
from attest.families import families, family_named
from attest.judging.catalogue import defects
from attest.records.failure import Likeness
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import random_parameters
from attest.reference.parts.heads import MultiHead
from attest.reference.parts.norms import RMSNorm
from attest.report import activations
from attest.report.schema import first_misfit
from attest.report.writing import as_json
from attest.starters import family_starter

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 20,
    "num_hidden_layers": 4,
    "vocab_size": 11,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
    "hidden_act": "silu",
    "pad_token_id": None,
}


@pytest.fixture
def weights(tmp_path):
    """A directory as transformers saves one, in two shards."""
    return saved(tmp_path / "llama", CONFIG)


def saved(directory, config):
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    family = family_named("llama")
    ours = family.config(
        d_model=16, num_heads=4, num_kv_heads=2, head_width=6, d_ff=20, num_decoder_layers=4,
        target_vocab=11, max_len=32, rotary_base=500000.0, pad_id=None,
    )  # fmt: skip
    drawn = random_parameters("language_model", ours, np.random.default_rng(0))
    stored = {family.names_for(ours)[name]: value for name, value in drawn.items()}
    names = sorted(stored)
    shards = {"a.safetensors": names[:20], "b.safetensors": names[20:]}
    for file, held in shards.items():
        safetensors.save_file({n: np.ascontiguousarray(stored[n]) for n in held}, directory / file)
    index = {"weight_map": {name: file for file, held in shards.items() for name in held}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def test_a_checkpoint_is_read_through_its_family(weights):
    checkpoint = Checkpoint(weights)
    assert checkpoint.family.name == "llama"
    assert (checkpoint.config.num_kv_heads, checkpoint.config.head_width, checkpoint.config.d_ff) == (
        2,
        6,
        20,
    )
    assert checkpoint.config.rotary_base == 500000.0
    assert checkpoint.config.tie is False
    assert set(checkpoint.parameters) == set(shapes("language_model", checkpoint.config))
    assert checkpoint.parameters["decoder.3.norm1.weight"].shape == (16,)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"bos_token_id": 9, "eos_token_id": 9}, (None, 9, 0)),  # GPT-2
        ({"pad_token_id": 9, "eos_token_id": 9, "bos_token_id": 1}, (9, 0, 1)),
        ({"pad_token_id": 0, "eos_token_id": 1}, (0, 1, 2)),  # T5 says nothing of a beginning
        ({"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, (0, 2, 1)),
    ],
)
def test_special_ids_that_are_one_in_a_checkpoint_are_kept_apart(tmp_path, told, wanted):
    config = Checkpoint(saved(tmp_path / "llama", CONFIG | told)).config
    assert (config.pad_id, config.eos_id, config.bos_id) == wanted


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model_type": "mamba"}, "model_type='mamba' is no known family"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
            "rope_parameters.rope_type='dynamic' is not implemented; known are linear, yarn, llama3",
        ),
        ({"rope_parameters": {"rope_type": "linear"}}, "rope_parameters.factor=None is not a number above 0"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7}},
            "rope_parameters.mscale=0.7 is not implemented for yarn",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": False}},
            "rope_parameters.truncate=False is not implemented for yarn",
        ),
        (
            {"rope_parameters": None, "rope_scaling": {"type": "longrope"}},
            "rope_scaling.rope_type='longrope'",
        ),
        ({"hidden_act": "gelu"}, "hidden_act='gelu' is not what llama computes"),
        ({"num_hidden_layers": -1}, "num_hidden_layers=-1 is not a whole number of at least 1"),
        ({"num_hidden_layers": 10**6}, "config.json has 1000000 layers"),
        ({"num_hidden_layers": "4"}, "num_hidden_layers='4' is not a whole number"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps='small' is not a number"),
        ({"hidden_size": 16.0}, "hidden_size=16.0 is not a whole number"),
        ({"num_key_value_heads": True}, "num_key_value_heads=True is not a whole number"),
        ({"vocab_size": 2**70}, "is not a whole number of at least 1"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is not implemented"),
        (
            {"rope_parameters": {"rope_type": "default", "factor": 8.0}},
            "rope_parameters.factor=8.0 is not impl",
        ),
        ({"num_hidden_layers": 3}, "model.layers.3.input_layernorm.weight is in the checkpoint and no param"),
        ({"num_hidden_layers": 5}, "decoder.4.self_attention.query.weight"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_by_name(tmp_path, changes, fault):
    directory = saved(tmp_path / "llama", {**CONFIG, **changes})
    with pytest.raises(CheckpointError) as error:
        Checkpoint(directory)
    assert fault in str(error.value)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
OLD = {"rope_parameters": None, "rope_theta": 500000.0}  # as before version 5 of transformers


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({**OLD, "rope_scaling": {"type": "linear", "factor": 2.0}}, ("linear", 2.0, 8192, 1.0, 32.0)),
        ({**OLD, "rope_scaling": LLAMA3}, ("llama3", 8.0, 16, 1.0, 4.0)),
        ({"rope_parameters": {**LLAMA3, "rope_theta": 500000.0}}, ("llama3", 8.0, 16, 1.0, 4.0)),
        ({**OLD, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ("yarn", 4.0, 32, 1.0, 32.0)),
    ],
)
def test_rules_for_angles_are_read_as_they_are_written(tmp_path, changes, wanted):
    config = Checkpoint(saved(tmp_path / "llama", {**CONFIG, **changes})).config
    names = ("scaling", "factor", "original", "slow_turns", "fast_turns")
    assert tuple(getattr(config, f"rotary_{name}") for name in names) == wanted
    assert config.rotary_base == 500000.0


@pytest.mark.parametrize(
    "rule", [LLAMA3, {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "linear", "factor": 2.0}]
)
def test_the_class_of_transformers_scales_its_angles_as_the_checkpoint_says(attest, tmp_path, rule):
    pytest.importorskip("transformers")
    rule = {**rule, "rope_theta": 500000.0}
    weights = saved(tmp_path / "llama", {**CONFIG, "rope_parameters": rule})
    code, out, errors = attest("compare", "--impl", "hf:llama", "--weights", str(weights))
    assert code == 0, out + errors
    code, out, errors = attest("compare", "--impl", port(tmp_path), "--weights", str(weights))
    assert code == 1, "a port that knows no rule turns by other angles"
    assert "first wrong  decoder.0.self_attention.output:in" in out


SMALL = {"d_model": 16, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "max_len": 32}


@pytest.mark.parametrize("name", families())
def test_what_transformers_saves_is_read_as_its_model_holds_it(tmp_path, name):
    pytest.importorskip("transformers", reason="transformers is not installed (extra peers)")
    from attest.adapters.huggingface import transformers_model

    family = family_named(name)
    ours = family.config(**SMALL, source_vocab=11, target_vocab=11)
    model = transformers_model(family, ours)
    model.module.save_pretrained(tmp_path / "whole")
    checkpoint = Checkpoint(tmp_path / "whole")
    assert checkpoint.family.huggingface.model == family.huggingface.model
    held = model.parameters()
    assert set(checkpoint.parameters) == set(held)
    for canonical, value in checkpoint.parameters.items():
        np.testing.assert_array_equal(value, held[canonical], canonical)


@pytest.mark.parametrize("name", ["gpt2", "bloom"])
def test_a_model_without_its_head_is_a_tied_one_without_a_prefix(tmp_path, name):
    """The files of GPT-2 are of this kind."""
    pytest.importorskip("transformers", reason="transformers is not installed (extra peers)")
    from attest.adapters.huggingface import transformers_model

    family = family_named(name)
    model = transformers_model(family, family.config(**SMALL, target_vocab=11, tie=True))
    model.module.transformer.save_pretrained(tmp_path / "bare")
    checkpoint = Checkpoint(tmp_path / "bare")
    assert checkpoint.config.tie
    for canonical, value in checkpoint.parameters.items():
        np.testing.assert_array_equal(value, model.parameters()[canonical], canonical)


def test_a_gated_t5_with_an_unscaled_output_is_read_as_one(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra peers)")
    from attest.adapters.huggingface import transformers_model

    family = family_named("t5")
    ours = family.config(**SMALL, source_vocab=11, target_vocab=11, projection_scale=0.25).but(
        gated=True, activation="gelu_tanh"
    )
    model = transformers_model(family, ours)
    assert isinstance(model.module, transformers.T5ForConditionalGeneration)
    model.module.save_pretrained(tmp_path / "t5")
    config = Checkpoint(tmp_path / "t5").config
    assert (config.gated, config.activation, config.projection_scale) == (True, "gelu_tanh", 0.25)


def test_an_index_names_files_beside_it_only(weights):
    (weights / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../secret"}}))
    with pytest.raises(CheckpointError, match="is no file of"):
        Checkpoint(weights)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused_before_anybody_is_asked(attest, weights, tmp_path, value):
    stored = safetensors.load_file(weights / "b.safetensors")
    name = next(name for name in stored if name.endswith("norm.weight"))
    stored[name][0] = value
    safetensors.save_file(stored, weights / "b.safetensors")
    code, _, errors = attest("compare", "--impl", port(tmp_path), "--weights", str(weights))
    assert code == 2
    assert "holds nan or infinity; nothing can be compared with it" in errors


def port(tmp_path, old="", new=""):
    text = family_starter(family_named("llama"), "port")
    assert old in text
    path = tmp_path / "port.py"
    path.write_text(text.replace(old, new) if old else text)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "first", "numbers", "defect"),
    [
        ("silu(self.gate(x)) * self.inner(x)", "silu(self.inner(x)) * self.gate(x)",
         "decoder.0.feed_forward.outer:in", "of its 320 numbers are wrong", "gate_up_swapped"),
        ("repeat_interleave(c.num_heads // c.kv_heads, 1)", "repeat(1, c.num_heads // c.kv_heads, 1, 1)",
         "decoder.0.self_attention.output:in", "features 6 to 17", "tiled_not_repeated"),
        ("c.rotary_base **", "10000.0 **", "decoder.0.self_attention.output:in", "are wrong, tokens 1 to 15",
         "theta_ignored"),
        ("+ self.eps)", "+ 1e-3)", "decoder.0.norm0:out", "each token is a multiple of what is right",
         "none of"),
        ("self.projection(norm(x))", "self.projection(x)", "projection:in", "it equals decoder.norm:in",
         "final_norm_missing"),
    ],
    ids=["gate_swapped", "heads_tiled", "base_fixed", "eps", "no_last_norm"],
)  # fmt: skip
def test_a_wrong_port_is_wrong_from_its_first_wrong_activation_on(
    attest, weights, tmp_path, old, new, first, numbers, defect
):
    code, out, errors = attest("compare", "--impl", port(tmp_path, old, new), "--weights", str(weights))
    assert code == 1, errors
    assert "port: logits wrong" in out
    assert f"first wrong  {first}" in out
    clauses = [line for line in out.splitlines() if "looks like" in line]
    assert numbers in clauses[0]
    assert defect in clauses[1]


SIZES = {"d_model": 48, "d_ff": 80, "target_vocab": 97, "source_vocab": 97, "pad_id": None}
DRAWN = [
    ("bloom", {**SIZES, "num_heads": 6}, "slopes_not_interpolated"),  # a power of two hides it
    ("bert", {**SIZES, "num_heads": 4, "pad_id": 5, "segments": 2}, "segments_not_embedded"),
]


@pytest.mark.parametrize(("family", "sizes", "defect"), DRAWN, ids=[family for family, *_ in DRAWN])
def test_a_defect_is_known_again_in_a_small_model_with_the_options_of_the_checkpoint(family, sizes, defect):
    config = family_named(family).config(**sizes)
    operation = family_named(family).operation
    builder = getattr(defects()[defect].build(), operation)

    def build(asked):
        if (asked.pad_id is None) != (config.pad_id is None):
            raise TypeError(
                "a port that compares ids with pad_id cannot do without one, and the other way round"
            )
        return builder(asked)

    found = nearest_defects(build, operation, config, "logits")
    assert defect in [likeness.defect for likeness in found.notable]


class Promoting:
    """Computes in float32 and answers in float64, as numpy code does that multiplies by one float64."""

    def __init__(self, component):
        self.component, self.load = component, component.load

    def __call__(self, **inputs):
        return {name: np.asarray(x, np.float64) for name, x in self.component(**inputs).items()}


@pytest.mark.parametrize("defect", ["", "final_norm_missing"])
def test_answers_in_another_dtype_are_compared_as_what_was_asked_for(defect):
    config = family_named("llama").config(**SIZES, num_heads=4)
    subject = defects()[defect].build() if defect else ReferenceImplementation()
    found = nearest_defects(
        lambda asked: Promoting(subject.language_model(asked)), "language_model", config, "logits"
    )
    assert (found is None) == (not defect)
    assert found is None or defect in [likeness.defect for likeness in found.notable]


def test_a_right_port_is_right_and_its_activations_are_written(attest, weights, tmp_path):
    code, out, errors = attest(
        "compare", "--impl", port(tmp_path), "--weights", str(weights), "--ids", "4 5 6", "--json", "all.json"
    )
    assert code == 0, errors
    assert "port: logits right" in out
    told = json.loads((tmp_path / "all.json").read_text())
    assert first_misfit(told, schema()) == ""
    (port_of_it,) = told["implementations"]
    assert port_of_it["right"]
    assert port_of_it["defects"] == []
    assert len(port_of_it["activations"]) > 60
    assert max(port_of_it["activations"].values()) < 1


def schema():
    path = files("attest.report") / "activations.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))


def findings():
    """What was found of a port whose norm gives numbers that are not finite from layer 1 on."""
    ratios = {"decoder.0.norm0:in": 0.0, "decoder.0.norm0:out": 0.2, "decoder.1.norm0:out": float("inf")}
    return Findings(
        "<b>mine</b>",
        float("inf"),
        tuple(Activation(name, ratio) for name, ratio in ratios.items()),
        first_wrong="decoder.1.norm0:out",
        last_good="decoder.0.norm0:out",
        numbers="it is zero everywhere",
        nearest=Diagnosis((Likeness("no_scale", 5, 5),), 7),
    )


def test_what_is_written_fits_the_schema_where_nothing_is_finite():
    told = json.loads(as_json(activations.data("DIR", [findings()])))
    jsonschema.validate(told, schema())
    assert first_misfit(told, schema()) == ""
    (entry,) = told["implementations"]
    assert entry["logits"] is None
    assert entry["activations"]["decoder.1.norm0:out"] is None
    assert entry["defects"] == [{"name": "no_scale", "agrees": 5, "cases": 5}]


def test_the_page_has_a_picture_with_the_last_right_and_the_first_wrong_activation():
    page = activations.page("DIR", "3 parameters", [findings()])
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    drawn = base64.b64decode(image).decode()
    assert "last right: decoder.0.norm0:out" in drawn
    assert "first wrong: decoder.1.norm0:out" in drawn
    assert "no_scale (agrees on 5 of 5 cases)" in page
    assert "<b>mine" not in page


def test_a_page_is_written_where_it_is_asked_for(attest, weights, tmp_path):
    words = ("compare", "--impl", port(tmp_path), "--weights", str(weights), "--ids", "4 5 6")
    code, _, errors = attest(*words, "--html", "page.html")
    assert code == 0, errors
    assert "Content-Security-Policy" in (tmp_path / "page.html").read_text()
    code, _, errors = attest(*words, "--html", "port.py")
    assert code == 2
    assert "--html='port.py' is not a file that can be written" in errors


class Tiled(MultiHead):
    def group_of(self, head):
        return head % self.config.kv_heads


class LateEps(RMSNorm):
    """Wrong eps from layer 2 on: the first layers are right."""

    def __call__(self, x, p):
        wrong = p.prefix.startswith(("decoder.2", "decoder.3"))
        own = self.config.norm_eps
        object.__setattr__(self.config, "norm_eps", 0.5 if wrong else own)
        try:
            return super().__call__(x, p)
        finally:
            object.__setattr__(self.config, "norm_eps", own)


@pytest.mark.parametrize(
    ("piece", "place", "note"),
    [
        (Tiled, "layer 0", "with attention of layer 0 silent it is right"),
        (LateEps, "layer 2", "with attention of layer 2 silent it is still wrong"),
    ],
)
def test_code_without_modules_is_narrowed_down_by_depth_and_surgery(weights, piece, place, note):
    checkpoint = Checkpoint(weights)
    ids = np.random.default_rng(1).integers(3, 11, (1, 8))
    build = ReferenceImplementation(piece).language_model
    found = examine("mine", build, "language_model", checkpoint.config, checkpoint.parameters, {"ids": ids})
    assert (found.way, found.first_wrong) == ("depth", place)
    assert note in found.notes


GPT2 = """
class Other:
    name = "other"
    families = ("gpt2",)
    def language_model(self, config):
        raise NotImplementedError
def attest_implementations():
    return [Other()]
"""


def test_weights_of_another_family_are_refused_in_one_sentence(attest, weights):
    Path("other.py").write_text(GPT2)
    code, out, errors = attest("compare", "--impl", "other.py", "--weights", str(weights))
    assert (code, out) == (2, "")
    said = "other is of the family gpt2, and these weights are of llama (positions='rotary', norm_kind='rms',"
    assert said in " ".join(errors.split())


def test_bad_requests_are_one_sentence(attest, weights, tmp_path):
    for words, fault in [
        (("--weights", "nowhere"), "--weights=nowhere is no directory"),
        (("--weights", str(weights), "--ids", "a b"), "is no table of ids"),
        (("--weights", str(weights), "--family", "lama"), "did you mean llama?"),
    ]:
        code, _, errors = attest("compare", "--impl", "numpy_scratch", *words)
        assert code == 2
        assert fault in errors
