"""M6: ids, rows and logits of any memory layout are read as what they are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation, array_of, guarded
from attest.checks.arrays import expect_close
from attest.checks.generation import expect_greedy, expect_scores, results_of
from attest.checks.layouts import laid_out
from attest.contract import Array
from attest.judging.property import given, verifies
from attest.milestones.m06_generation.cases.caching import CacheCase, cache_cases
from attest.milestones.m06_generation.cases.generation import GenerationCase, generation_cases
from attest.milestones.m06_generation.cases.sampling import LogitsCase, logits_cases
from attest.outcomes import Expected
from attest.reference.oracle import expected


def orders() -> st.SearchStrategy[str]:
    """Layouts in which every row keeps its own numbers."""
    return st.sampled_from(("transposed", "strided", "reversed", "batch last", "read-only"))


def arranged(x: Array, layout: str) -> Array:
    """The same numbers in another layout."""
    found: Array = laid_out({"x": x}, layout)["x"]
    return found


@verifies("M6.12", effort=0.5)
@given(case=generation_cases(min_rows=2), layout=orders())
def a_prompt_of_any_layout_is_read(impl: JudgedImplementation, case: GenerationCase, layout: str) -> None:
    """Greedy follows the prompt, however it lies in memory."""
    if not impl.offers(case.architecture.generate):
        return  # side effects of a model are judged without an operation that writes with it
    name = case.architecture.prompt_keyword
    request = case.request()
    seen = case.generator(impl).as_given(**{**request, name: arranged(request[name], layout)})
    found = [row[0] for row in results_of(seen, case, len(request[name]), 1, request["max_len"])]
    readings = case.teacher(impl).read(case.prompt, [tokens for tokens, _ in found])
    for row, reading in enumerate(readings):
        expect_greedy(reading, f"row {row} of a {layout} prompt")
    expect_scores(found, readings, 0.0)


@verifies("M6.12", effort=0.5)
@given(case=cache_cases(scripted=False), layout=orders())
def a_step_of_any_layout_is_read(impl: JudgedImplementation, case: CacheCase, layout: str) -> None:
    """start, step and reorder take what they are given, however it lies in memory."""
    if not impl.offers(case.architecture.operation):
        return
    model, architecture = case.model(impl), case.architecture
    if not hasattr(model.component, "start"):
        return
    prompt = architecture.beginning(case.prompt)
    rows, tokens = np.arange(case.B)[::-1].copy(), case.tokens(0, case.B, 4)

    def call(method: str, *given: Any) -> Any:
        changed = [arranged(x, layout) if isinstance(x, np.ndarray) else x for x in given]
        return guarded(f"{model.operation}.{method}", partial(getattr(model.component, method), *changed))

    _, state = call("step", call("start", prompt), tokens[:, :2])
    if model.reorders:
        state = call("reorder", state, rows)
    else:
        rows = np.arange(case.B)
    seen, _ = call("step", state, tokens[rows, 2:])
    inputs = architecture.reading(case.prompt[rows], tokens[rows])
    wanted = expected(architecture.operation, case.config, case.parameters, inputs)["logits"]
    late = Expected(wanted.value[:, 2:], wanted.bound[:, 2:])
    what = f"the logits of a step with {layout} tokens"
    expect_close(array_of(seen, "step"), late, what, factor=2 * model.widening)


@verifies("M6.12", effort=0.5)
@given(case=logits_cases(regimes=("unit",)), layout=orders())
def logits_of_any_layout_are_read(impl: JudgedImplementation, case: LogitsCase, layout: str) -> None:
    """The distribution is that of the logits, however they lie in memory."""
    if impl.offers("next_token_distribution"):
        logits, *rest = case.arguments
        seen = impl.call_as_given("next_token_distribution", arranged(logits, layout), *rest)
        factor = impl.factor("next_token_distribution")
        expect_close(seen, case.expected, f"probabilities of {layout} logits", factor=factor)
