"""M6's own machinery: reading, searching, replaying, counting; and eager spoiled in ways no defect is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from attest.boundary import JudgedImplementation
from attest.cli import cli
from attest.contract.parameters import shapes as parameter_shapes
from attest.evidence import collecting
from attest.judging.catalogue import defects
from attest.judging.cost import Workload, step_flops, step_seconds
from attest.judging.property import load_properties, parse_drawn, run_property
from attest.milestones.m06_generation.cases.generation import BeamCase, GenerationCase
from attest.outcomes import Violation
from attest.reference.implementation import ReferenceImplementation
from attest.reference.initial import initial_parameters
from attest.reference.models.maps import cross_attention_maps
from attest.trained.models import SavedModel
from attest.trained.tasks import TRAINING
from attest_impls.eager import Eager, beam, cache, generation


@pytest.fixture(autouse=True)
def evidence():
    with collecting() as collected:
        yield collected


def refusal(implementation, criterion, name=None, *, shrinks=False):
    """The first violation with which a criterion refuses an implementation, or None."""
    impl = JudgedImplementation(implementation)
    for found in load_properties()[criterion]:
        if name in (None, found.name) and found.runs_in("quick"):
            try:
                run_property(replace(found, shrinks=shrinks), impl, profile="quick", seed=0)
            except Violation as violation:
                return violation
    return None


def test_reading_equals_searching():
    case = GenerationCase(B=2, S=3, symbols=5, dtype="float64", seed=4)
    hypotheses = [(3, 4, 2), (5, 5, 6, 7, 3)]
    readings = case.teacher(JudgedImplementation(ReferenceImplementation())).read(case.prompt, hypotheses)
    for row, reading in enumerate(readings):
        alone = case.searcher.log_probability(case.prompt[row : row + 1], hypotheses[row])
        assert abs(reading.log_probability - alone) < 1e-9
        assert 0 < reading.error < 1e-9, "suppressed tokens must not widen the bound"


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_the_slow_beam_agrees_with_the_reference(width, alpha):
    case = BeamCase(B=1, S=3, symbols=2 * width + 2, limit=5, eos=1.0, W=width, K=width, alpha=alpha, seed=9)
    seen = case.loaded(JudgedImplementation(ReferenceImplementation()), "generate")(**case.request())
    wanted = case.searcher.beam(case.prompt, case.limit, width, alpha).results[:width]
    np.testing.assert_allclose(seen["scores"][0], [result.score for result in wanted], rtol=1e-5)
    for row, result in zip(seen["tokens"][0], wanted):
        assert tuple(row[: len(result.tokens)]) == result.tokens


def test_a_failing_machine_prints_a_case_that_fails_by_itself():
    broken = defects()["positions_restart"].build()
    violation = refusal(broken, "M6.3", "a_cached_step_equals_the_full_pass", shrinks=True)
    assert violation is not None
    assert violation.case.startswith("case=cache["), violation.case
    assert parse_drawn(violation.case)["case"].script.count("s0:") == 2, (
        "two steps show it; the rest is shrunk"
    )
    replay = next(p for p in load_properties()["M6.3"] if p.name == "a_script_of_steps_equals_the_full_pass")
    with pytest.raises(Violation, match="the logits of a cached step"):
        run_property(replay, JudgedImplementation(broken), profile="quick", seed=0, witness=violation.case)
    run_property(replay, JudgedImplementation(Eager()), profile="quick", seed=0, witness=violation.case)


def test_torch_counts_the_work_of_a_step(monkeypatch):
    work = Workload(D=64)
    plain = step_flops(JudgedImplementation(Eager()), work, 400)
    assert 0 < plain <= work.flops_of_a_step
    honest = cache.step

    def encodes_again(model, state, tokens):
        model.encode(torch.full((2, 50), 5))
        return honest(model, state, tokens)

    monkeypatch.setattr(cache, "step", encodes_again)
    assert step_flops(JudgedImplementation(Eager()), work, 400) > 1.5 * work.flops_of_a_step


def test_torch_counts_a_memory_projected_again(monkeypatch):
    honest = cache._cached_layer

    def projects_again(layer, x, state, *rest):
        layer.cross_attention.keys_values(torch.zeros(2, state.memory.shape[4], x.shape[-1]))
        return honest(layer, x, state, *rest)

    monkeypatch.setattr(cache, "_cached_layer", projects_again)
    assert "floating-point operations" in refusal(Eager(), "M6.4").seen


def test_numpy_is_timed_and_not_counted():
    work = Workload(D=32, S=20)
    impl = JudgedImplementation(ReferenceImplementation())
    assert step_flops(impl, work, 30) == 0
    few, many = step_seconds(impl, (work, 10), (replace(work, S=30), 10))
    assert min(few, many) > 0


def test_cross_attention_maps_are_distributions():
    shapes = parameter_shapes("transformer", TRAINING)
    parameters = initial_parameters("transformer", TRAINING, shapes)
    maps = cross_attention_maps(TRAINING, parameters, np.array([[5, 6, 7, 0]]), np.array([[1, 7, 6]]))
    assert [m.shape for m in maps] == [(4, 3, 4)] * 2
    np.testing.assert_allclose(np.stack(maps).sum(-1), 1.0)
    assert not np.stack(maps)[..., 3].any(), "padding is never looked at"


def chunk_sees_one_ahead(monkeypatch):
    honest = cache.causal_mask

    def shifted(T, S, device):
        return honest(T, S, device) | honest(T, S, device).roll(1, -1) if S > T else honest(T, S, device)

    monkeypatch.setattr(cache, "causal_mask", shifted)


def source_mask_lost_by_reorder(monkeypatch):
    honest = cache.reorder

    def forgets(state, rows):
        moved = honest(state, rows)
        return replace(moved, memory_seen=torch.ones_like(moved.memory_seen))

    monkeypatch.setattr(cache, "reorder", forgets)


def past_not_copied_by_reorder(monkeypatch):
    honest = cache.reorder

    def aliases(state, rows):
        moved = honest(state, rows)
        same = len(rows) == state.rows and rows.tolist() == sorted(rows.tolist())
        return replace(moved, past=state.past) if same else moved

    monkeypatch.setattr(cache, "reorder", aliases)


def penalty_by_one_length_for_all(monkeypatch):
    monkeypatch.setattr(beam, "_penalty", lambda n, alpha: (10 / 6) ** alpha)


def finished_forgotten_when_full(monkeypatch):
    monkeypatch.setattr(beam.Hypotheses, "joined", lambda self, other: other)


def greedy_scores_in_half(monkeypatch):
    honest = generation.walk

    def rounded(*args, **options):
        tokens, scores = honest(*args, **options)
        return tokens, scores.to(torch.float16).double()

    monkeypatch.setattr(generation, "walk", rounded)


@pytest.mark.parametrize(
    ("spoil", "criterion"),
    [
        (chunk_sees_one_ahead, "M6.3"),
        (source_mask_lost_by_reorder, "M6.3"),
        (past_not_copied_by_reorder, "M6.3"),
        (penalty_by_one_length_for_all, "M6.8"),
        (finished_forgotten_when_full, "M6.2"),
        (greedy_scores_in_half, "M6.1"),
    ],
)
def test_what_no_defect_names_is_refused_too(monkeypatch, spoil, criterion):
    spoil(monkeypatch)
    assert refusal(Eager(), criterion) is not None, f"{spoil.__name__} passed {criterion}"


@pytest.fixture
def untrained(tmp_path):
    """A checkpoint of initial weights."""
    parameters = Eager().transformer(TRAINING).parameters()
    model = SavedModel(implementation="eager", task="reverse", config=TRAINING, parameters=parameters)
    model.write(tmp_path / "model")
    return str(tmp_path / "model")


def test_generate_prints_input_output_and_score(untrained):
    result = CliRunner().invoke(cli, ["generate", "--checkpoint", untrained, "3 1 4 1 5", "--results", "2"])
    lines = result.output.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0] == "input   3 1 4 1 5"
    assert len(lines) == 3
    assert all(line.startswith("output  ") and "   score -" in line for line in lines[1:])
    assert "reverse would be 5 1 4 1 3" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["3 1"], "length=2 was never trained"),
        (["3 x 4"], "symbol='x' is unknown"),
        (["3 1 4", "--width", "0"], "width=0 is not a positive integer"),
        (["3 1 4", "--impl", "torch_nn"], "generate is not offered"),
    ],
)
def test_generate_refuses_in_a_sentence(untrained, arguments, sentence):
    result = CliRunner().invoke(cli, ["generate", "--checkpoint", untrained, *arguments])
    assert result.exit_code != 0
    assert sentence in result.output


def test_generate_names_a_missing_checkpoint(tmp_path):
    result = CliRunner().invoke(cli, ["generate", "--checkpoint", str(tmp_path), "3 1 4"])
    assert result.exit_code == 2
    assert "holds no model.json; write one with `attest train`" in result.output
