"""Studies: what is measured and what is written."""

from __future__ import annotations

import json

import numpy as np
from click.testing import CliRunner

from attest.boundary import JudgedImplementation
from attest.cli import cli
from attest.evidence import collecting
from attest.reference.implementation import ReferenceImplementation
from attest.report.writing import _note_studies
from attest.studies.lengths import KINDS, draw_lengths, lengths_study, table
from attest.studies.norm import cross_entropy_gradient, draw_norms, layer_norms, norm_study, write_study


class EncoderOnly:
    """Offers no whole model."""

    name = "encoder_only"

    def encoder(self, config):
        return ReferenceImplementation().encoder(config)


def study(implementation: object, depths: tuple[int, ...] = (2, 3)) -> dict:
    with collecting():
        return norm_study(JudgedImplementation(implementation), depths=depths)


def test_every_layer_of_both_stacks_and_placements_is_measured() -> None:
    found = study(ReferenceImplementation())
    assert found["operation"] == "transformer"
    keys = {(row["norm"], row["stack"], row["depth"]) for row in found["layers"]}
    assert len(keys) == 2 * 2 * 2
    assert all(len(row["gradient_norm"]) == row["depth"] for row in found["layers"])
    assert all(value > 0 for row in found["layers"] for value in row["gradient_norm"])


def test_an_encoder_alone_can_be_studied() -> None:
    found = study(EncoderOnly(), (8,))
    post, pre = found["layers"]
    assert (post["norm"], pre["norm"]) == ("post", "pre")
    first, last = ([row["gradient_norm"][i] for row in (post, pre)] for i in (0, -1))
    assert first[0] < last[0]  # post-norm: each norm on the way down takes its share
    assert first[1] > last[1]


def test_the_cross_entropy_gradient_is_a_difference_quotient() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((2, 3, 5)), np.array([[1, 2, 0], [4, 0, 0]])

    def loss(z):
        log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
        counted = labels != 0
        return -(np.take_along_axis(log_p, labels[..., None], -1)[..., 0] * counted).sum() / counted.sum()

    direction = rng.standard_normal(logits.shape)
    slope = (loss(logits + 1e-6 * direction) - loss(logits - 1e-6 * direction)) / 2e-6
    assert abs((cross_entropy_gradient(logits, labels) * direction).sum() - slope) < 1e-8


def test_layer_norms_count_each_parameter_once() -> None:
    gradients = {"encoder.1.a": np.array([3.0]), "encoder.1.b": np.array([4.0]), "encoder.10.a": np.ones(1)}
    assert layer_norms({**gradients, "encoder.0.a": np.zeros(1)}, "encoder.", 2) == [0.0, 5.0]


def test_files_hold_the_numbers_and_the_picture(tmp_path) -> None:
    found = study(EncoderOnly(), (2,))
    paths = write_study(found, tmp_path)
    data = json.loads((tmp_path / "encoder_only" / "study_norm.json").read_text())
    assert data == found
    assert data["curves"]["post enc 2"]["y"] == found["layers"][0]["gradient_norm"]
    drawing = draw_norms(found)
    assert len(paths) == (1 if drawing is None else 2)
    assert drawing is None or ("<svg" in drawing and "post-norm encoder" in drawing)


def test_the_report_shows_the_study_beside_the_placement_of_norms(tmp_path) -> None:
    found = study(EncoderOnly(), (2,))
    write_study(found, tmp_path)
    rows = [{"id": id, "failure": None, "data": {}} for id in ("M4.1", "M4.2")]
    document = {"milestones": [{"id": "M4", "criteria": rows}]}
    _note_studies(document, tmp_path / "encoder_only")
    assert rows[0]["data"] == {}
    assert rows[1]["data"] == {"curves": found["curves"]}
    (tmp_path / "encoder_only" / "study_norm.json").write_text("edited")
    rows[1]["data"] = {}
    _note_studies(document, tmp_path / "encoder_only")
    assert rows[1]["data"] == {}


def test_an_unknown_study_and_a_missing_operation_are_refused(tmp_path) -> None:
    plugin = tmp_path / "small.py"
    plugin.write_text(
        "class Small:\n    name = 'small'\n\ndef attest_implementations():\n    return [Small()]\n"
    )
    unknown = CliRunner().invoke(cli, ["study", "nrm", "--impl", str(plugin)])
    assert unknown.exit_code == 2
    assert "study='nrm' is unknown; did you mean norm?" in unknown.output
    missing = CliRunner().invoke(cli, ["study", "norm", "--impl", str(plugin), "--reports", str(tmp_path)])
    assert missing.exit_code == 2
    assert "small cannot be studied: encoder is not offered" in missing.output


def test_attention_is_measured_over_lengths() -> None:
    """One process for each point."""
    found = lengths_study("numpy_scratch", lengths=(64, 512))
    by = {(row["kind"], row["length"]): row for row in found["rows"]}
    assert set(by) == {(kind, length) for kind in KINDS for length in (64, 512)}
    assert all(row["seconds"] > 0 for row in found["rows"])
    # The scores of 4 heads at 512 are 4 MB; blocks of 64 keys keep an eighth of them.
    assert by["full", 512]["megabytes"] > 4
    assert by["chunked", 512]["megabytes"] < by["full", 512]["megabytes"]
    assert len(found["curves"]) == 2 * len(KINDS)
    assert draw_lengths(found).startswith("<?xml")
    assert len(table(found)) == 1 + len(found["rows"])


def test_who_has_no_attention_of_today_cannot_be_studied_over_lengths(tmp_path) -> None:
    (tmp_path / "empty.py").write_text(
        "class Empty:\n    name = 'empty'\n\ndef attest_implementations():\n    return [Empty()]\n"
    )
    args = ["study", "lengths", "--impl", str(tmp_path / "empty.py"), "--reports", str(tmp_path)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "neither self_attention nor chunked_attention is offered" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["empty.py"]
