"""The information-flow map: what the spec requires, what is found, how a difference reads."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from attest.boundary import JudgedImplementation
from attest.checks.flow import Flow, by_gradient, by_perturbation, flow, required_maps, within_rows
from attest.cli import cli
from attest.cli.flow import maps
from attest.evidence import collecting
from attest.judging.catalogue import defects
from attest.milestones.m04_layers.cases.layers import LayerCase
from attest.reference.implementation import ReferenceImplementation

LEAKS = {
    "no_causal_in_decoder": ("decoder", "output[0,0] changes when x[0,1] changes, and should not"),
    "causal_on_cross": ("decoder_layer", "output[0,0] does not change when memory[0,0] changes, and should"),
    "layer_norm_over_batch": ("encoder", "output[0,0] changes when x[1,0] changes, and should not"),
    "causal_in_encoder": ("encoder", "output[0,0] does not change when x[0,1] changes, and should"),
    "source_padding_ignored_in_cross": ("decoder", "output[0,0] changes when memory[0,2] changes"),
}


def found_maps(implementation: object, part: str, **options: object) -> list[Flow]:
    with collecting():
        return maps(
            JudgedImplementation(implementation),
            part,
            **{"norm": "post", "padding": True, "layers": 2, "seed": 7, **options},
        )


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("part", ["encoder_layer", "encoder", "decoder_layer", "decoder"])
def test_the_reference_flows_as_required_by_both_means(part: str, norm: str) -> None:
    found = found_maps(ReferenceImplementation(), part, norm=norm)
    assert [f.means for f in found] == ["perturbation", "gradient"]
    assert [f.sentence() for f in found] == ["", ""]


def test_the_transformer_has_source_and_target() -> None:
    (found,) = found_maps(ReferenceImplementation(), "transformer", padding=False)
    assert found.agrees
    assert {c.partition("[")[0] for c in found.columns} == {"source", "target"}
    assert found.rows[0] == "logits[0,0]"


@pytest.mark.parametrize("name", sorted(LEAKS))
def test_a_defect_shows_in_the_map(name: str) -> None:
    part, sentence = LEAKS[name]
    found = found_maps(defects()[name].build(), part, padding="padding" in name)
    assert not found[0].agrees
    assert sentence in found[0].sentence()
    assert ("!" if "should not" in sentence or "padding" in name else "o") in found[0].text()


def test_a_detached_path_shows_by_gradient_only() -> None:
    perturbation, gradient = found_maps(defects()["memory_detached"].build(), "decoder", padding=False)
    assert perturbation.agrees
    assert gradient.gaps.sum() == 2 * 4 * 3
    assert gradient.sentence().startswith("output[0,0] has no gradient at memory[0,0], and should")


def test_required_maps_follow_the_masks_through_the_layers() -> None:
    chain = np.eye(3, dtype=bool) | np.eye(
        3, k=-1, dtype=bool
    )  # each position sees itself and the one before
    one, two = (required_maps("decoder", chain[None], None, depth)["x"][0, :, 0] for depth in (1, 2))
    assert not one[2, 0]
    assert two[2, 0]
    assert not two[0, 1]


def test_memory_hidden_from_one_position_arrives_through_its_past() -> None:
    triangle = np.tri(2, dtype=bool)[None]
    memory = np.array([[[True], [False]]])
    assert required_maps("decoder", triangle, memory, 1)["memory"][0, :, 0, 0].tolist() == [True, False]
    assert required_maps("decoder", triangle, memory, 2)["memory"][0, :, 0, 0].tolist() == [True, True]


def test_nothing_is_required_between_rows() -> None:
    whole = within_rows(np.ones((2, 3, 3), bool))
    assert whole[0, :, 0].all()
    assert not whole[0, :, 1].any()


def test_positions_of_padding_are_not_judged() -> None:
    found = found_maps(ReferenceImplementation(), "encoder")[0]
    assert not found.judged.all()
    row = int(np.argmin(found.judged))
    assert found.text().splitlines()[4 + row].endswith("-" * len(found.columns))
    assert found.as_data()["seen"][row] == found.as_data()["required"][row]


def test_the_data_for_the_report_holds_both_maps() -> None:
    required = {"x": within_rows(np.ones((1, 1, 2), bool))}
    seen = {"x": within_rows(np.array([[[True, False]]]))}
    data = flow(required, seen, np.ones((1, 1), bool), means="perturbation").as_data()
    assert data["required"] == [[1, 1]]
    assert data["seen"] == [[1, 0]]
    assert data["rows"] == ["output[0,0]"]
    assert data["columns"] == ["x[0,0]", "x[0,1]"]


def test_both_means_agree_on_every_mask_form() -> None:
    for mask in ("none", "padding", "keys", "pairs", "shared"):
        case = LayerCase(part="decoder", B=2, T=3, S=3, D=8, H=2, F=16, N=2, mask=mask, memory_mask=mask)
        case = case.but(dtype="float64", seed=4)
        with collecting():
            component = case.loaded(JudgedImplementation(ReferenceImplementation()))
            required = required_maps(case.part, case.visible, case.memory_visible, case.depth)
            found = by_perturbation(component, case.inputs, required)
            slopes = by_gradient(component, case.inputs, required, case.real)
        for name in required:
            assert np.array_equal(found[name][case.real], slopes[name][case.real]), (mask, name)


PLUGIN = """
from attest.judging.catalogue import defects

def attest_implementations():
    return [defects()["no_causal_in_decoder"].build()]
"""


def test_the_command_prints_the_map_and_fails_on_a_leak(tmp_path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    result = CliRunner().invoke(cli, ["flow", "--impl", str(plugin), "decoder"])
    assert result.exit_code == 1, result.output
    assert "output[0,0]  #.......###...     #!!!....###..." in result.output
    assert "output[0,0] changes when x[0,1] changes, and should not (12 such pairs)" in result.output
    good = CliRunner().invoke(cli, ["flow", "--impl", str(plugin), "encoder"])
    assert good.exit_code == 0
    assert good.output.count("as required") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decodr"], "part='decodr' has no map; did you mean decoder?"),
        (["decoder", "--norm", "middle"], "norm='middle' is unknown; use one of post, pre"),
        (["transformer", "--padding"], "--padding is for layers and stacks"),
    ],
)
def test_the_command_refuses_what_it_cannot_draw(arguments: list[str], message: str, tmp_path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    result = CliRunner().invoke(cli, ["flow", "--impl", str(plugin), *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_command_names_what_is_offered(tmp_path) -> None:
    plugin = tmp_path / "small.py"
    plugin.write_text(
        "class Small:\n    name = 'small'\n\ndef attest_implementations():\n    return [Small()]\n"
    )
    result = CliRunner().invoke(cli, ["flow", "--impl", str(plugin), "decoder"])
    assert result.exit_code == 2
    assert "small does not offer decoder; it offers none of these" in result.output


@pytest.mark.parametrize("part", ["language_model", "causal_layer", "masked_language_model"])
def test_models_and_layers_of_today_have_a_map(part) -> None:
    result = CliRunner().invoke(cli, ["flow", "--impl", "eager", part])
    assert result.exit_code == 0, result.output
    first = "####...." if part.startswith("masked") else "#......."
    assert f"[0,0]  {first}" in result.output
    assert "as required" in result.output


def test_every_real_token_of_a_row_moves_its_class(tmp_path) -> None:
    result = CliRunner().invoke(cli, ["flow", "--impl", "eager", "classifier"])
    assert result.exit_code == 0, result.output
    assert "logits[0,0]  ####....     ####....\nlogits[1,0]  ....####     ....####" in result.output
    plugin = tmp_path / "mine.py"
    plugin.write_text(FORGETFUL)
    result = CliRunner().invoke(cli, ["flow", "--impl", str(plugin), "classifier"])
    assert result.exit_code == 1, result.output
    assert "logits[0,0] does not change when ids[0,3] changes, and should" in result.output


FORGETFUL = """
from attest.reference.implementation import ReferenceImplementation
from attest.reference.models.encoder_only import EncoderOnly

class LeavesOutTheLast(EncoderOnly):
    def classified(self, ids, segments, p):
        return super().classified(ids[:, :-1], segments, p)

def attest_implementations():
    return [ReferenceImplementation(LeavesOutTheLast, name="leaves_out_the_last")]
"""
