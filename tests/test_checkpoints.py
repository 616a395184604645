"""A checkpoint is data: whoever wrote it, reading it runs nothing and fails with one sentence."""

import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

from attest.cli import cli
from attest.contract import Config
from attest.reference.oracle import random_parameters
from attest.trained.models import SavedModel, read_model

SMALL = Config(
    d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, source_vocab=14, target_vocab=14
)  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """A directory with a model that can be read."""
    return fitting(tmp_path / "m", SMALL)


def change(saved, **changes):
    about = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(about | changes))


def test_a_checkpoint_cannot_name_code(saved, tmp_path):
    evil = tmp_path / "payload.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef attest_implementations(): return []")
    for name in (str(evil), "payload:make", "os:getcwd"):
        change(saved, implementation=name)
        result = CliRunner().invoke(cli, ["generate", "--checkpoint", str(saved), "3 1 4"])
        assert result.exit_code == 2
        assert "which is not registered; name with --impl the implementation that generates" in result.output
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"d_model": [8]}},
        {"config": {"d_model": "8"}},
        {"config": {"d_model": True}},
        {"config": {"dropout": float("inf")}},
        {"config": {"no_such_field": 1}},
        {"config": {"num_decoder_layers": -1}},
        {"config": {"d_ff": 0}},
        {"config": {"max_len": 2**40}},
        {"config": {"norm": "sideways"}},
        {"config": {"rotary_fraction": 2.0}},
        {"config": {"norm_eps": float("nan")}},
        {"config": {"bias": 1}},
        {"config": {"options": [["a", ["b"]]]}},
        {"config": {"options": 7}},
        {"config": None},
        {"task": "no task"},
        {"task": ["copy"]},
        {"implementation": 7},
    ],
)
def test_wrong_kinds_are_refused_in_one_sentence(saved, changes):
    change(saved, **changes)
    with pytest.raises(ValueError, match=r"cannot be read \(.*\); train again") as caught:
        read_model(saved)
    assert "\n" not in str(caught.value)


def header_of(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zip",
        b"PK\x03\x04 cut short",
        header_of(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**62,)}\n"),
        header_of(b"{'descr': '<f4', 'shape': ((((((((\n"),
        header_of(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n"),
        header_of(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000,)}\n"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_broken_parameters_are_refused_in_one_sentence(saved, content, inside):
    path = saved / "parameters.npz"
    if inside:
        with zipfile.ZipFile(path, "w") as held:
            held.writestr("w.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read \(.*\); train again"):
        read_model(saved)


def test_a_beam_of_any_width_is_refused_before_it_runs(saved):
    result = CliRunner().invoke(cli, ["generate", "--checkpoint", str(saved), "3 1 4", "--width", "99999"])
    assert result.exit_code == 2
    assert "width=99999 takes minutes; use at most 1024" in result.output


def test_an_error_that_is_no_text_is_refused_in_one_sentence(saved):
    change(saved, error=["a\n"] * 1000)
    with pytest.raises(ValueError, match="holds no model") as caught:
        read_model(saved)
    assert "\n" not in str(caught.value)


def fitting(home, config, **changes):
    """A whole model of this config, written with some fields changed."""
    drawn = random_parameters("transformer", config, np.random.default_rng(0))
    SavedModel(implementation="numpy_scratch", task="copy", config=config, parameters=drawn).write(home)
    about = json.loads((home / "model.json").read_text())
    change(home, config=about["config"] | changes)
    return home


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_decoder_layers": 1_000_000}, "1000000 layers"),
        ({"num_heads": 3}, "num_heads=3 does not divide d_model=8"),
        ({"bos_id": 99}, "bos_id=99 is outside the vocabulary"),
        ({"max_len": 2**31 - 1}, "fills the memory"),
        ({"d_ff": 9}, "is not the config's"),
        ({"bias": False}, "is missing in the config"),
    ],
)
@pytest.mark.parametrize("command", ["generate", "attention"])
def test_a_config_of_another_model_is_refused_before_anybody_computes(tmp_path, changes, says, command):
    """Otherwise the implementation that meets it is blamed."""
    home = fitting(tmp_path / "m", SMALL, **changes)
    result = CliRunner().invoke(cli, [command, "--checkpoint", str(home), "3 1 4"])
    assert result.exit_code == 2, result.output
    assert says in result.output


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    home = fitting(tmp_path / "m", SMALL)
    with np.load(home / "parameters.npz") as held:
        arrays = dict(held)
    arrays["encoder.0.norm1.weight"][3] = np.nan
    np.savez(home / "parameters.npz", **arrays)
    result = CliRunner().invoke(cli, ["generate", "--checkpoint", str(home), "3 1 4"])
    assert result.exit_code == 2
    assert "encoder.0.norm1.weight holds nan or infinity" in result.output
