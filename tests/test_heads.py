"""Attention maps, patterns of heads, ablation and rollout, on models whose heads are built by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from attest.contract import Config
from attest.contract.parameters import shapes
from attest.contract.vocabulary import TOKENS
from attest.reference.assembly import Parts
from attest.reference.implementation import ReferenceImplementation
from attest.reference.initial import random_parameters
from attest.reference.models.maps import attention_maps, rollout, without_heads
from attest.studies.heads import heads
from attest.trained.digits import IDS, NAME, question
from attest.trained.models import SavedModel

LENGTH, HEADS, WIDTH = 5, 6, 192
FEATURES = len(TOKENS) + LENGTH  # which token, which position
BUILT = Config(d_model=WIDTH, num_heads=HEADS, d_ff=4, num_encoder_layers=1, num_decoder_layers=1,
               max_len=LENGTH, source_vocab=20, target_vocab=20, norm="pre", dropout=0.0,
               dtype="float64")  # fmt: skip
SMALL = BUILT.but(d_model=8, num_heads=2, num_encoder_layers=2, num_decoder_layers=2)


def token(*ids):
    return list(ids)


def position(*places):
    return [len(TOKENS) + i for i in places]


def wanted_scores(name):
    """(features of the query, features of the key): what a head of this pattern adds to a score."""
    M = np.zeros((FEATURES, FEATURES))
    everywhere = position(*range(LENGTH))
    if name == "previous":
        M[position(*range(1, LENGTH)), position(*range(LENGTH - 1))] = 1
    elif name == "first":
        M[np.ix_(everywhere, position(0))] = 1
    elif name == "last":
        M[np.ix_(everywhere, position(LENGTH - 1))] = 1
    elif name == "same token":
        M[token(*range(len(TOKENS))), token(*range(len(TOKENS)))] = 1
        M[everywhere, everywhere] = -1
    elif name == "delimiter":
        M[np.ix_(everywhere, token(EOS_ID))] = 1
    elif name == "operation's digit":
        for operation, place in (("FIRST", 1), ("SECOND", 2), ("LAST", LENGTH - 1)):
            M[IDS[operation], len(TOKENS) + place] = 1
    return M


EOS_ID = IDS["EOS"]


def built_by_hand(patterns):
    """Parameters of a model whose encoder head i follows patterns[i].

    A linear map reads token and position off the normalised vectors (they are independent in 192 features),
    and W_q, W_k of a head multiply these by the scores that the pattern wants.
    """
    rng = np.random.default_rng(0)
    parameters = {name: np.zeros(shape) for name, shape in shapes("transformer", BUILT).items()}
    for name in parameters:
        if name.endswith("weight") and parameters[name].ndim == 1:
            parameters[name] += 1
    table = rng.standard_normal((20, WIDTH))
    table[0] = 0.0
    parameters["source_embedding.weight"] = table
    pairs = [(t, i) for t in range(1, 20) for i in range(LENGTH)]
    positions = Parts(BUILT).positions.buffer()[:LENGTH]
    x = np.array([table[t] * np.sqrt(WIDTH) + positions[i] for t, i in pairs])
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + BUILT.norm_eps)
    onehot = np.zeros((len(pairs), FEATURES))
    for row, (t, i) in enumerate(pairs):
        onehot[row, [t, len(TOKENS) + i]] = 1
    read = np.linalg.lstsq(x, onehot, rcond=None)[0].T  # (features, WIDTH)
    d = WIDTH // HEADS
    for head, name in enumerate(patterns):
        left, strengths, right = np.linalg.svd(wanted_scores(name))
        root = np.sqrt(40 * np.sqrt(d) * strengths)[:, None]
        rows = slice(head * d, head * d + FEATURES)
        parameters["encoder.0.self_attention.query.weight"][rows] = root * (left.T @ read)
        parameters["encoder.0.self_attention.key.weight"][rows] = root * (right @ read)
    return parameters


GENERAL = ["previous", "first", "last", "same token", "delimiter", "uniform"]
ROWS = ("3 5 EOS 5 7", "1 EOS 9 2 9", "4 4 8 EOS 6", "2 0 EOS 6 0")


def encoder_scores(patterns, rows):
    source = np.array([[IDS[word] for word in row.split()] for row in rows])
    target = np.full((len(rows), 1), 1)
    maps = attention_maps(BUILT, built_by_hand(patterns), source, target)
    return [head.scores for head in heads(maps, source, target) if head.kind == "encoder"]


def test_a_head_built_for_a_pattern_has_its_score_and_no_other_head_has():
    scores = encoder_scores(GENERAL, ROWS)
    for head, name in enumerate(GENERAL):
        for pattern in GENERAL[:-1]:
            score = scores[head][pattern]
            assert score > 0.99 if pattern == name else score < 0.3, (name, pattern, score)


def test_a_head_built_for_the_operations_digit_has_its_score():
    rows = ("FIRST 3 1 4 8", "SECOND 3 1 4 8", "LAST 3 1 4 8", "FIRST 9 9 2 1")
    scores = encoder_scores(["operation's digit", "previous"], rows)
    assert scores[0]["operation's digit"] > 0.99
    assert all(s["operation's digit"] < 0.3 for s in scores[1:])
    assert all(value < 0.3 for name, value in scores[0].items() if name == "previous")


def test_padding_changes_no_score():
    parameters = random_parameters("transformer", SMALL, np.random.default_rng(1))
    source = np.array([question("MAX 3 9"), question("FIRST 4 4")])
    target = np.array([[1, 12], [1, 7]])
    wide = np.pad(source, ((0, 0), (0, 2)))
    for one, other in zip(
        heads(attention_maps(SMALL, parameters, source, target), source, target),
        heads(attention_maps(SMALL, parameters, wide, target), wide, target),
    ):
        assert one.scores == pytest.approx(other.scores, abs=1e-12)


def test_maps_are_distributions_over_what_is_visible_and_leave_the_logits():
    parameters = random_parameters("transformer", SMALL, np.random.default_rng(2))
    source, target = np.array([[13, 3, 4, 0]]), np.array([[1, 5, 6]])
    maps = attention_maps(SMALL, parameters, source, target)
    assert maps.encoder.shape == (2, 1, 2, 4, 4)
    assert maps.cross.shape == (2, 1, 2, 3, 4)
    assert not maps.cross[..., 3].any()
    assert not np.triu(maps.decoder[0, 0, 0], 1).any()
    np.testing.assert_allclose(maps.cross.sum(-1), 1)
    model = ReferenceImplementation().transformer(SMALL)
    model.load(parameters)
    np.testing.assert_allclose(maps.logits, model(source=source, target=target)["logits"], rtol=1e-12)


def test_without_a_head_is_a_head_whose_values_are_zero():
    parameters = random_parameters("transformer", SMALL, np.random.default_rng(3))
    source, target = np.array([[13, 3, 4]]), np.array([[1, 5]])
    removed = without_heads(SMALL, parameters, frozenset({("cross", 1, 1)}))
    silent = dict(parameters)
    for kind in ("weight", "bias"):
        name = f"decoder.1.cross_attention.value.{kind}"
        silent[name] = parameters[name].copy()
        silent[name][4:] = 0  # head 1 has the features 4 to 7
    one, other = (attention_maps(SMALL, p, source, target).logits for p in (removed, silent))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    whole = attention_maps(SMALL, parameters, source, target).logits
    assert np.abs(one - whole).max() > 1e-3
    same = without_heads(SMALL, parameters, frozenset())
    np.testing.assert_array_equal(attention_maps(SMALL, same, source, target).logits, whole)


def test_rollout_keeps_its_laws():
    eye, rng = np.eye(3), np.random.default_rng(0)
    np.testing.assert_array_equal(rollout(np.stack([eye, eye])), eye)
    a, b = (np.tril(rng.random((3, 3))) for _ in range(2))
    a, b = a / a.sum(-1, keepdims=True), b / b.sum(-1, keepdims=True)
    np.testing.assert_allclose(rollout(a[None]), (a + eye) / 2)
    both = rollout(np.stack([a, b]))
    np.testing.assert_allclose(both, (b + eye) / 2 @ (a + eye) / 2)  # the later layer on the left
    assert np.abs(both - (a + eye) / 2 @ (b + eye) / 2).max() > 1e-2
    np.testing.assert_allclose(both.sum(-1), 1)
    assert not np.triu(both, 1).any()


@pytest.fixture
def checkpoint(tmp_path):
    parameters = random_parameters("transformer", SMALL.but(max_len=8), np.random.default_rng(0))
    model = SavedModel(implementation="numpy_scratch", task=NAME, config=SMALL.but(max_len=8),
                       parameters=parameters)  # fmt: skip
    model.write(tmp_path / "kept")
    return tmp_path / "kept"


def test_the_command_prints_every_head_and_the_mean_with_tokens(attest, checkpoint):
    code, out, err = attest("attention", "-c", str(checkpoint), "FIRST 3 1 4", "--kind", "cross")
    assert code == 0, err
    assert out.count("decoder cross, layer 0, head") == 2
    assert "decoder cross, layer 1, mean" in out
    assert "    FIRST     3     1     4\nBOS" in out


@pytest.mark.parametrize("name", ["maps.svg", "maps.png"])
def test_the_command_draws(attest, checkpoint, name):
    code, out, err = attest("attention", "-c", str(checkpoint), "SUM 3 1", "--out", name, "--layer", "1")
    assert code == 0, err
    assert out == f"{name} written: 9 maps\n"
    assert Path(name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["FIRST 3 x"], "token='x' is unknown; write FIRST"),
        (["FIRST 3 1 4 1 5"], "has 5 digits, which was never trained; write 2 to 3"),
        (["FIRST 3 1", "--out", "maps.gif"], "out='maps.gif' is not a picture; end it in .svg, .png, .pdf"),
        (["FIRST 3 1", "--out", "no/maps.png"], "is in no directory that exists; make it first"),
        (["FIRST 3 1", "--kind", "both"], "kind='both' is unknown; use one of self, cross"),
        (["FIRST 3 1", "--layer", "2"], "layer=2 is beyond the model; use 0 to 1"),
    ],
)
def test_bad_requests_are_one_sentence_and_write_nothing(attest, checkpoint, words, sentence):
    before = sorted(Path().iterdir())
    code, out, err = attest("attention", "-c", str(checkpoint), *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == before


def test_the_study_of_heads_prints_a_table_and_keeps_what_it_measured(attest, checkpoint):
    code, out, err = attest("study", "heads", "-c", str(checkpoint), "--examples", "20")
    assert code == 0, err
    assert out.splitlines()[1].split() == ["head", "pattern", "score", "inputs", "right", "without", "it"]
    study = json.loads(Path("reports/numpy_scratch/study_heads.json").read_text())
    assert len(study["heads"]) == 12
    np.testing.assert_allclose(np.sum(study["rollout"], axis=-1), 1, atol=1e-4)
    for name in study["pictures"]:
        assert (Path("reports/numpy_scratch") / name).read_text().count("<svg") == 1


def test_a_report_shows_the_study_of_heads_as_pictures(attest, checkpoint):
    attest("study", "heads", "-c", str(checkpoint), "--examples", "20")
    words = ("--impl", "numpy_scratch", "-c", "M10.14", "--profile", "quick", "-n", "0", "--report", "html")
    code, _, err = attest("run", *words)
    assert code in (0, 1), err
    page = Path("reports/numpy_scratch/M10.md").read_text()
    assert "](study_heads.svg)" in page
    assert "](study_heads_maps.svg)" in page
    html = Path("reports/numpy_scratch/report.html").read_text()
    assert "weight on the keys of a pattern, 20 test questions" in html
    assert "attention rollout of the encoder" in html
    assert "FIRST 3 1 4: decoder cross, layer 0" in html


@pytest.mark.parametrize("name", ["../../secret.svg", "study_missing.svg", "report.json"])
def test_a_study_can_name_no_other_file(name, tmp_path):
    from attest.report.writing import _is_picture

    (tmp_path / "secret.svg").write_text("<svg/>")
    (tmp_path / "report.json").write_text("{}")
    assert not _is_picture(tmp_path / "a" / "b" / name)
    assert not _is_picture(tmp_path / name.removeprefix("../../"))


@pytest.mark.parametrize("command", [("attention", "FIRST 3 1"), ("study", "heads")])
def test_parameters_of_another_config_are_one_sentence(attest, checkpoint, command):
    about = json.loads((checkpoint / "model.json").read_text())
    about["config"]["d_model"] *= 2
    (checkpoint / "model.json").write_text(json.dumps(about))
    code, out, err = attest(*command, "-c", str(checkpoint))
    assert (code, out) == (2, "")
    assert re.search(r"shape=\(.*\) is not the config's \(.*\); train again", err)
    assert len(err.splitlines()) == 1


def test_the_study_of_heads_refuses_another_task(attest, checkpoint):
    about = json.loads((checkpoint / "model.json").read_text())
    (checkpoint / "model.json").write_text(json.dumps({**about, "task": "copy"}))
    code, _, err = attest("study", "heads", "-c", str(checkpoint))
    assert code == 2
    assert "the checkpoint is of the task copy; train one of the task operations" in err
