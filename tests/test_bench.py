"""The benchmark at its smallest: eager alone, two workloads, and what is written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from attest.bench.agreement import expect_greedy
from attest.bench.entrants import Entrant, lengths
from attest.bench.goals import BEST_PEER, GOALS, RATIOS, Goal, Ratio, ReadingGoal, judged, reported
from attest.bench.measuring import Outcome, Timing, measure
from attest.bench.processes import Field, separate_processes
from attest.bench.shapes import BASE, SMALL, TEXT, parameters
from attest.bench.workloads import chosen, workloads
from attest.bench.writing import document, markdown
from attest.cli import cli
from attest.outcomes import NotOffered
from attest.reference.oracle import expected


def outcome(**seconds: list[float]) -> Outcome:
    timings = [Timing(name.replace("_", " "), taken) for name, taken in seconds.items()]
    return Outcome(chosen(SMALL, ["greedy_1"])[0], timings, {})


def test_a_small_run_writes_json_markdown_and_a_plot(tmp_path) -> None:
    args = ["bench", "--small", "--impl", "eager", "--no-peers", "--rounds", "2", "--threads", "1"]
    args += ["--workload", "train", "--workload", "greedy_1", "--reports", str(tmp_path)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [entry["name"] for entry in found["workloads"]] == ["train", "greedy_1"]
    train, greedy = found["workloads"]
    assert [row["name"] for row in train["entrants"]] == ["eager"]
    assert {row["name"]: len(row["seconds"]) for row in greedy["entrants"]} == {
        "eager": 2,
        "eager re-running": 2,
    }
    assert found["ceilings"]["matmul_gflops"] > 0
    assert found["ceilings"]["bandwidth_gbs"] > 0
    assert [shape["name"] for shape in found["shapes"]] == ["small"]
    assert "cores" in found["environment"]["processor"]
    page = (tmp_path / "bench.md").read_text()
    assert "| eager re-running |" in page
    assert "- eager spends " in page
    assert "## Goals" not in page  # goals and ratios are meant for the base shape
    assert "## Ratios" not in page
    assert found["ratios"] == found["goals"] == []
    assert (tmp_path / "bench.svg").read_text().startswith("<?xml")


def test_a_ratio_is_best_over_best_with_the_rounds_around_it() -> None:
    found = outcome(eager=[1.0, 2.0], Marian=[4.0, 3.0])
    assert found.ratio("eager", "Marian") == (3.0, 1.5, 4.0)
    assert found.ratio("eager", "CTranslate2") is None


def test_a_goal_is_judged_in_float32_and_never_by_the_loop() -> None:
    found = outcome(eager=[4.0], eager_re_running=[9.0], compiled=[2.0], Marian=[6.0])
    found.timings.append(Timing("compiled,dtype=bfloat16", [1.5]))
    goals = [Goal("greedy_1", name, "Marian", 2.0) for name in ("compiled", "eager")]
    goals.append(Goal("beam_4", "compiled", "Marian", 1.5))
    assert [(g["seen"], g["reached"]) for g in judged([found], goals, 1.0)] == [
        (3.0, True),
        (1.5, False),
        (None, None),
    ]


def test_the_speed_of_eager_is_reported_and_not_judged() -> None:
    found = outcome(eager=[4.0])
    found.timings.append(Timing("eager re-running", [9.0]))
    ratios = [Ratio("greedy_1", "eager", name) for name in ("eager re-running", "nn.Transformer")]
    assert reported([found], ratios) == [
        {"sentence": "greedy_1: eager against eager re-running", "seen": 2.25},
        {"sentence": "greedy_1: eager against nn.Transformer", "seen": None},
    ]
    assert {goal.entrant for goal in GOALS} == {"compiled", "numpy_scratch"}
    assert {ratio.entrant for ratio in RATIOS} == {"eager"}


def test_the_page_shows_ratios_without_a_verdict_and_goals_with_one() -> None:
    timings = [Timing("eager", [1.0]), Timing("eager re-running", [6.0])]
    base = Outcome(chosen(BASE, ["greedy_1"])[0], timings, {})
    about = {"threads": 1, "clock": "wall", "rounds": 1, "missing": []}
    ceilings = {"matmul_gflops": 1.0, "bandwidth_gbs": 1.0}
    page = markdown(document(BASE, [base], ceilings, about, (0.0, 0.0)))
    assert "| greedy_1: eager against eager re-running | 6.00 |" in page
    assert "| greedy_16: eager against eager re-running | not measured |" in page
    assert "| greedy_1: compiled against Marian | 2.0 | not measured |  |" in page


def test_goals_against_the_fastest_peer_and_against_reading_the_weights() -> None:
    work = chosen(BASE, ["complete_1"])[0]
    timings = [Timing("compiled", [0.5]), Timing("slow", [4.0], peer=True), Timing("fast", [1.0], peer=True)]
    goals = [Goal("complete_1", "compiled", BEST_PEER, 1.5), ReadingGoal("complete_1", "compiled", 0.7)]
    found = judged([Outcome(work, timings, {})], goals, bandwidth=TEXT.bytes_per_token * 1e-9 * 100)
    # 100 tokens read the weights 100 times, which takes a second at this bandwidth.
    assert [(g["seen"], g["reached"]) for g in found] == [(2.0, True), (2.0, True)]
    alone = Outcome(work, timings[:1], {})
    assert judged([alone], goals[:1], 1.0)[0]["seen"] is None


def greedy_tokens(work) -> np.ndarray:
    """What the reference itself would write."""
    ids = work.given
    for _ in range(work.tokens):
        found = expected("language_model", work.shape.config, parameters(work.shape), {"ids": ids})
        ids = np.concatenate([ids, found["logits"].value[:, -1:].argmax(-1)], axis=1)
    return ids[:, work.length :]


def test_a_completion_with_another_token_is_not_timed() -> None:
    work = chosen(SMALL, ["complete_1"])[0]
    right = greedy_tokens(work)
    expect_greedy(work, right, "float32")
    wrong = right.copy()
    wrong[0, 4] += 1
    entrants = [Entrant("right", lambda work: lambda: right), Entrant("wrong", lambda work: lambda: wrong)]
    entrants.append(Entrant("short", lambda work: lambda: right[:, :3]))
    found = measure(work, entrants, 1, lambda line: None)
    assert [timing.entrant for timing in found.timings] == ["right"]
    assert found.absent["wrong"].startswith(
        f"its token 4 of row 0 is {wrong[0, 4]}, not {right[0, 4]}, whose"
    )
    assert found.absent["short"] == "tokens of shape (1, 3) instead of (1, 10)"


def test_a_disturbed_workload_is_timed_again_and_marked() -> None:
    work = chosen(SMALL, ["greedy_1"])[0]

    class Uneven(Entrant):
        def seconds(self, clock: str) -> float:
            taken.append(times[len(taken)])
            return taken[-1]

    for times, disturbed, kept in (
        ([1.0, 1.1], False, [1.0, 1.1]),
        ([1.0, 2.0, 1.0, 1.2], False, [1.0, 1.2]),
        ([1.0, 2.0, 1.0, 1.9], True, [1.0, 1.9]),
    ):
        taken: list[float] = []
        found = measure(work, [Uneven("a", lambda work: lambda: 10, peer=True)], 2, lambda line: None)
        assert (found.disturbed, found.timings[0].seconds, taken) == (disturbed, kept, times)


def test_who_does_less_than_asked_is_not_timed() -> None:
    def not_offered(work):
        raise NotOffered("generate is not offered")

    entrants = [Entrant("lazy", lambda work: lambda: 1), Entrant("absent", not_offered)]
    found = measure(chosen(SMALL, ["greedy_16"])[0], entrants, 1, lambda line: None)
    assert found.timings == []
    assert found.absent == {"lazy": "1 tokens instead of 160", "absent": "generate is not offered"}


DIES = """
import os

class {Name}:
    name = "{name}"
    def generate(self, config):
        if self.name == "exits":
            os._exit(7)
        raise RuntimeError("no weights")

def attest_implementations():
    return [{Name}()]
"""


def test_who_fails_or_dies_in_its_process_costs_nobody_else(tmp_path) -> None:
    requests = []
    for name in ("exits", "raises"):
        path = tmp_path / f"{name}.py"
        path.write_text(DIES.format(name=name, Name=name.title()))
        requests.append(str(path))
    work = chosen(SMALL, ["greedy_1"])[0]
    with separate_processes(Field((*requests, "eager"), "cpu", 1, with_peers=False)) as (entrants, missing):
        found = measure(work, entrants, 2, lambda line: None)
    assert missing == []
    assert {timing.entrant: len(timing.seconds) for timing in found.timings} == {
        "eager": 2,
        "eager re-running": 2,
    }
    assert found.absent["exits"] == "its process ended with exit code 7"
    assert "no weights" in found.absent["raises"]


def test_rounds_are_interleaved() -> None:
    seen: list[str] = []

    def entrant(name: str) -> Entrant:
        def run() -> int:
            seen.append(name)
            return 10

        return Entrant(name, lambda work: run, peer=True)  # peers are not profiled

    measure(chosen(SMALL, ["greedy_1"])[0], [entrant("a"), entrant("b")], 2, lambda line: None)
    # Once to warm up, then two rounds; two more where the machine was so busy that they differ.
    assert len(seen) in (6, 10)
    assert seen == ["a", "b"] * (len(seen) // 2)


def test_a_sampled_loop_is_multiplied() -> None:
    work = chosen(SMALL, ["greedy_1"])[0]
    assert list(lengths(100)) == [5, 15, 25, 35, 45, 55, 65, 75, 85, 95]
    entrants = [
        Entrant("whole", lambda work: lambda: 10),
        Entrant("tenth", lambda work: lambda: 10, every=10**9),
    ]
    found = measure(work, entrants, 1, lambda line: None)
    whole, tenth = (timing.best for timing in found.timings)
    assert tenth > 1000 * whole


def test_an_unknown_workload_names_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["bench", "--small", "--workload", "gredy_1"])
    assert result.exit_code != 0
    assert "--workload=gredy_1 is unknown; did you mean greedy_1?" in str(result.exception)


@pytest.mark.parametrize(
    ("absent", "sentences"),
    [
        ([], []),
        (["ctranslate2"], ["CTranslate2 takes no part without ctranslate2"]),
        (["gguf", "xllamacpp"], ["llama.cpp takes no part without xllamacpp and gguf"]),
        (
            ["transformers", "ctranslate2"],
            [
                "Marian takes no part without transformers",
                "Hugging Face takes no part without transformers",
                "Hugging Face, static cache takes no part without transformers",
                "CTranslate2 takes no part without transformers and ctranslate2",
                "llama.cpp takes no part without transformers",
                "ONNX Runtime takes no part without transformers",
            ],
        ),
    ],
)
def test_a_peer_that_is_not_installed_is_named(monkeypatch, absent, sentences) -> None:
    from attest.bench import peers as module

    monkeypatch.setattr(module, "find_spec", lambda name: None if name in absent else object())
    found, missing = module.peers(1)
    assert missing == [f"{sentence}; install attest-transformers[bench]" for sentence in sentences]
    assert len(found) + len(missing) == 7


@pytest.mark.slow
def test_every_peer_that_is_installed_completes_as_the_reference_does() -> None:
    """The same weights in the formats of five libraries."""
    work = chosen(SMALL, ["complete_16"])[0]
    with separate_processes(Field((), "cpu", 1, with_peers=True)) as (entrants, _):
        found = measure(work, entrants, 1, lambda line: None)
    strangers = {"nn.Transformer", "Marian"}  # they have no decoder-only model
    assert {one.name for one in entrants} - strangers == {timing.entrant for timing in found.timings}


def test_the_base_shape_reads_104_megabytes_per_token() -> None:
    assert BASE.bytes_per_token == pytest.approx(104e6, rel=0.05)
    assert [work.tokens for work in workloads(BASE)] == [32, 9, 32, 100, 100, 100, 500, 100, 100, 1]
