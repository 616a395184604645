"""`attest gradcheck`: what it prints, draws and refuses."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

from attest.cli.gradcheck import command, table
from attest.studies.gradcheck import Comparison

WRONG = """
import pluggy
from attest_impls.numpy_scratch import NumpyScratch, arguments, norm, operations

class Halved(norm.LayerNorm):
    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        dx[..., 0] *= 0.5
        return dx

class Wrong(NumpyScratch):
    name = "wrong"
    def layer_norm(self, config):
        dtype = arguments.compute_dtype(config)
        layer = Halved(config.d_model, config.norm_eps, dtype)
        return operations.MapOperation(layer, config.d_model, dtype)

@pluggy.HookimplMarker("attest")
def attest_implementations():
    return [Wrong()]
"""


def run(*words):
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def wrong(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path / "wrong.py"


def test_right_gradients_are_listed_array_by_array():
    done = run("--impl", "numpy_scratch", "linear", "d_ff=4")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == "numpy_scratch linear, float64, seed 0"
    assert lines[1].split() == ["array", "entries", "worst", "at", "analytic", "numerical", "error"]
    assert [line.split()[:2] for line in lines[2:5]] == [["x", "36/36"], ["weight", "24/24"], ["bias", "4/4"]]
    assert lines[5] == "every gradient agrees (allowed 1.0e-07 of the largest gradient of an array)"


def test_a_wrong_gradient_is_found_and_drawn(wrong, tmp_path):
    picture = tmp_path / "where.png"
    done = run("--impl", wrong, "layer_norm", "--out", picture)
    assert done.exit_code == 1
    row = next(line for line in done.output.splitlines() if line.startswith("x "))
    assert row.endswith("WRONG")
    assert row.split()[2].endswith(",0")
    assert "wrong: x (allowed" in done.output
    assert f"{picture} shows where" in done.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_sentence_says_so(wrong, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.colors", None)
    done = run("--impl", wrong, "layer_norm", "--out", tmp_path / "a.png")
    assert done.exit_code == 1
    assert "no picture: matplotlib is missing; install attest-transformers[report]" in done.output
    assert list(tmp_path.glob("*.png")) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["softmx"], "operation='softmx' has no gradients to check; did you mean softmax?"),
        (["trainer"], "operation='trainer' has no gradients to check"),
        (["softmax", "--out", "a.gif"], "out='a.gif' is not a picture; end it in .png, .svg, .pdf"),
        (["softmax", "--out", "nowhere/a.png"], "is in no directory that exists; make it first"),
        (["linear", "d_model=wide"], "d_model='wide' is not a whole number"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(words, message):
    done = run("--impl", "numpy_scratch", *words)
    assert done.exit_code != 0
    assert message in done.output + str(done.exception)


def test_only_some_entries_are_looked_at_when_asked():
    done = run("--impl", "numpy_scratch", "linear", "--entries", "3")
    assert [line.split()[1] for line in done.output.splitlines()[2:5]] == ["3/36", "3/30", "3/5"]


def test_a_missing_gradient_is_wrong():
    gone = Comparison("x", np.full(2, np.nan), np.ones(2), 1.0, 1e-7)
    assert not gone.right
    assert "WRONG" in table([gone])[1]
