"""MC: what can go wrong only because a compiler stands between the code and the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation, fresh, guarded
from attest.checks.arrays import expect, expect_close, expect_refused, expect_same_bits
from attest.contract import OPERATIONS, Config
from attest.evidence import note_case
from attest.judging.property import verifies
from attest.milestones.compiled.cases.compiled import (
    LENGTHS,
    B,
    batch,
    config_of,
    inputs_of,
    new_component,
    operations,
    report_of,
    tokens,
)
from attest.milestones.m01_attention.cases.misfits import misfits
from attest.outcomes import NotOffered, NotRun
from attest.reference.oracle import expected, random_parameters

Job = tuple[Any, Callable[[], Any]]
# A cache that grows by blocks, or a length that is a constant of the graph, compiles anew within 100 steps.
STEPS = 100
PLACED = ("transformer", "loss", "language_model")  # what is put on a device that is not there
# A look at the stop flags every eight tokens, and as much again for whatever else is looked at.
MOST_WAITS = 0.25
UNFIT = (
    "k of length 5 and v of length 4",
    "k of length 1 and v of length 5",
    "a mask for 4 keys out of 5",
    "a mask for a batch of 3",
)


def jobs(impl: JudgedImplementation) -> dict[str, Job]:
    """The components and what is done with them; what is not offered is left out."""
    model, decoder = new_component(impl, "transformer"), new_component(impl, "transformer")
    inputs = inputs_of("transformer", model.config, 4)
    found: dict[str, Job] = {"the forward pass": (model.component, lambda: model(**inputs))}
    if hasattr(decoder.component, "start"):
        state = decoder.start(inputs["source"])
        found["a decoding step"] = (decoder.component, lambda: decoder.step(state, tokens()))
    trainer = impl.construct("trainer", impl.with_run_options(config_of(impl, "trainer")))
    found["a training step"] = (trainer, lambda: guarded("trainer.step", lambda: trainer.step(batch())))
    return found


@verifies("MC.1")
def each_job_is_one_graph(impl: JudgedImplementation) -> None:
    """Each component, used for one job only, makes one graph without a break."""
    for name, (component, run) in jobs(impl).items():
        note_case(f"{name} of a new component", name)
        before = report_of(component, name)
        run()
        after = report_of(component, name)
        expect(after["graph_breaks"] == 0, f"{name} has {after['graph_breaks']} graph breaks, should have 0")
        expect(after["graphs"] >= 1, f"{name} is in no graph, should be in one")
        made = after["graphs"] - before["graphs"]
        expect(made <= 1, f"{name} is {made} graphs, should be one")


@verifies("MC.2")
def a_hundred_steps_compile_at_most_twice(impl: JudgedImplementation) -> None:
    """100 steps compile once for the step, and at most once more for a second form of inputs."""
    model = new_component(impl, "transformer")
    note_case(f"{STEPS} steps of one token, {B} rows", "decoding")
    state = model.start(inputs_of("transformer", model.config, 4)["source"])
    before = report_of(model.component, "transformer")["compilations"]
    for _ in range(STEPS):
        _, state = model.step(state, tokens())
    made = report_of(model.component, "transformer")["compilations"] - before
    expect(made <= 2, f"{STEPS} decoding steps compiled {made} times, should at most twice")


@verifies("MC.2")
def a_hundred_steps_of_a_language_model_compile_at_most_twice(impl: JudgedImplementation) -> None:
    """The same of a model that continues its prompt, where it is offered."""
    if not impl.offers("language_model"):
        return
    model = new_component(impl, "language_model")
    note_case(f"{STEPS} steps of one token of a language model, {B} rows", "decoding")
    if not hasattr(model.component, "start"):
        return
    state = model.start(B)
    before = report_of(model.component, "language_model")["compilations"]
    for _ in range(STEPS):
        _, state = model.step(state, tokens())
    made = report_of(model.component, "language_model")["compilations"] - before
    expect(made <= 2, f"{STEPS} steps of a language model compiled {made} times, should at most twice")


@verifies("MC.3")
def every_length_is_right(impl: JudgedImplementation) -> None:
    """One component equals the reference at every length, going up and down again."""
    for operation in (record.name for record in operations()):
        if impl.offers(operation):
            component = impl.build(operation, config_of(impl, operation))
            parameters = random_parameters(operation, component.config, np.random.default_rng(5))
            component.load(parameters)
            for n in (*LENGTHS, *reversed(LENGTHS)):
                expect_right(impl, component, parameters, n)


def expect_right(impl: JudgedImplementation, component: JudgedComponent, parameters: Any, n: int) -> None:
    """Equal to the reference at this length."""
    operation = component.operation
    note_case(f"{operation} of length {n}", f"length {n}")
    inputs = inputs_of(operation, component.config, n)
    wanted = expected(operation, component.config, parameters, inputs)
    seen = component(**inputs)
    for name in OPERATIONS[operation].gives:
        expect_close(
            seen[name], wanted[name], f"{name} of {operation} at length {n}", factor=impl.factor(operation)
        )


@verifies("MC.4")
def a_kept_output_stays(impl: JudgedImplementation) -> None:
    """The array that a forward pass returned keeps its numbers during the next pass."""
    for operation in ("attention", "encoder_layer", "transformer"):
        if not impl.offers(operation):
            continue
        component = new_component(impl, operation)
        note_case(f"{operation} called twice", "forward")
        first, second = (inputs_of(operation, component.config, 4, seed) for seed in (0, 1))
        kept = guarded(operation, lambda c=component, i=first: c.component(**fresh(i)))  # type: ignore[misc]
        before = {name: np.array(value) for name, value in kept.items()}
        component(**second)
        for name, value in before.items():
            expect_same_bits(np.asarray(kept[name]), value, f"{name} of {operation} after the next call")


@verifies("MC.4")
def kept_logits_stay(impl: JudgedImplementation) -> None:
    """The array that a step returned keeps its numbers during the next two steps."""
    model = new_component(impl, "transformer")
    note_case("three steps", "decoding")
    state = model.start(inputs_of("transformer", model.config, 4)["source"])
    step = model.component.step
    kept, state = guarded("transformer.step", lambda: step(state, tokens()))
    before = np.array(kept)
    for token in (5, 6):
        _, state = model.step(state, np.full((B, 1), token))
    expect_same_bits(np.asarray(kept), before, "the logits of a step after the next steps")


@verifies("MC.5")
def bad_input_is_refused(impl: JudgedImplementation) -> None:
    """A component refuses bad input before its first call and after it."""
    for operation, wrongs in bad_inputs(impl).items():
        if not impl.offers(operation):
            continue
        component = new_component(impl, operation)
        for when in ("at first", "after a good call"):
            for what, inputs in wrongs.items():
                note_case(f"{operation}: {what}, {when}", when)
                expect_refused(
                    lambda c=component, i=inputs: c.component(**fresh(i)),  # type: ignore[misc]
                    f"{what}, {when},",
                )
            component(**inputs_of(operation, component.config, 4))


def bad_inputs(impl: JudgedImplementation) -> dict[str, dict[str, dict[str, Any]]]:
    """By operation and by what is wrong."""
    config = config_of(impl, "transformer")
    good = inputs_of("transformer", config, 4)
    high, low = good["source"].copy(), good["target"].copy()
    high[1, 2], low[0, 1] = config.source_vocab, -1
    long = np.full((B, config.max_len + 1), 4, np.int64)
    every = misfits(impl.dtypes[0])
    return {
        "attention": {name: every[name][1] for name in UNFIT},
        "transformer": {
            "a source id beyond the vocabulary": {**good, "source": high},
            "a negative target id": {**good, "target": low},
            "a target of max_len + 1": {**good, "target": long},
            "a target of another batch": {**good, "target": good["target"][:1]},
        },
    }


@verifies("MC.5")
def one_token_too_many_is_refused(impl: JudgedImplementation) -> None:
    """The cache has max_len places, and a step beyond them is refused."""
    if not impl.offers("transformer"):
        return
    model = new_component(impl, "transformer")
    if not hasattr(model.component, "start"):
        return
    note_case("a step of max_len + 1 tokens, and one out of the vocabulary", "decoding")
    source = inputs_of("transformer", model.config, 4)["source"]
    wrong = {"max_len + 1 tokens": tokens(model.config.max_len + 1), "the id 11": tokens() + 7}
    for what, given in wrong.items():
        state = model.start(source)
        expect_refused(lambda s=state, g=given: model.component.step(s, g), f"a step of {what}")  # type: ignore[misc]


@verifies("MC.6")
def compiled_code_really_ran(impl: JudgedImplementation) -> None:
    """Every call runs a graph once more."""
    for operation in ("attention", "multi_head_attention", "encoder_layer", "transformer"):
        if not impl.offers(operation):
            continue
        component = new_component(impl, operation)
        ran = report_of(component.component, operation)["compiled_calls"]
        for n in (4, 3, 4):
            note_case(f"{operation} of length {n}", operation)
            component(**inputs_of(operation, component.config, n))
            report = report_of(component.component, operation)
            expect(report["graphs"] >= 1, f"{operation} ran and has {report['graphs']} graphs")
            calls, ran = report["compiled_calls"] - ran, report["compiled_calls"]
            expect(calls >= 1, f"a call of {operation} of length {n} ran no compiled code")


@verifies("MC.7")
def everything_is_made_on_the_device_of_the_input(impl: JudgedImplementation) -> None:
    """Forward, loss and decoding run on fake CUDA tensors, and gradients on the meta device."""
    from attest.adapters.placement import is_torch, on_fake_cuda, without_numbers

    if impl.sealed:
        raise NotRun("its modules are put on another device, as cannot be done across a seal; run open")
    config = config_of(impl, "transformer")
    offered = [name for name in PLACED if impl.offers(name)]
    made = {name: impl.construct(name, impl.with_run_options(config).but(device="cpu")) for name in offered}
    names = [name for name, component in made.items() if is_torch(component)]
    if not names:
        raise NotOffered("its components hold no torch module as `module` and no `config`")
    built = [made[name] for name in names]
    note_case(f"{', '.join(names)} on fake CUDA tensors", "fake cuda")
    with on_fake_cuda(*built) as copies:
        expect_runs(impl, names, copies, config, gradients=False, where="fake CUDA tensors")
    note_case(f"{', '.join(names)} on the meta device", "meta")
    with without_numbers():
        moved = [impl.construct(name, impl.with_run_options(config).but(device="meta")) for name in names]
        expect_runs(impl, names, moved, config, gradients=True, where="the meta device")


@verifies("MC.7a")
def a_real_device_gives_the_same(impl: JudgedImplementation) -> None:
    """On the GPU everything runs, and the logits are the reference's."""
    config = config_of(impl, "transformer").but(device="cuda")
    names = [name for name in ("transformer", "loss") if impl.offers(name)]
    built = [impl.construct(name, config.but(options=impl.options)) for name in names]
    note_case(f"{', '.join(names)} on CUDA", "cuda")
    expect_runs(impl, names, built, config, gradients=True, where="CUDA")
    model = JudgedComponent("transformer", built[0], config, impl)
    parameters = random_parameters("transformer", config, np.random.default_rng(5))
    model.load(parameters)
    expect_right(impl, model, parameters, 5)


def expect_runs(
    impl: JudgedImplementation,
    names: list[str],
    components: list[Any],
    config: Config,
    *,
    gradients: bool,
    where: str,
) -> None:
    """Run what the contract has; the sentence names the first that cannot."""
    for name, component in zip(names, components):
        part = JudgedComponent(name, component, config, impl)
        inputs = inputs_of(name, config, 4)
        done = f"{name} on {where}"
        expect_on_device(done, partial(part, **inputs))
        if gradients:
            parameters = random_parameters(name, config, np.random.default_rng(5))
            output = OPERATIONS[name].output
            shape = expected(name, config, parameters, inputs)[output].value.shape
            ones = {output: np.ones(shape, np.float32)}
            expect_on_device(f"the backward pass of {done}", partial(part.gradients, inputs, ones))
        if hasattr(component, "start"):
            beginning = inputs.get(
                "source", B
            )  # a model that continues its prompt begins with a number of rows
            expect_on_device(f"cached decoding of {done}", partial(decode, part, beginning))


def expect_on_device(what: str, call: Callable[[], Any]) -> None:
    """Run the call; any exception means that a tensor is on the wrong device."""
    try:
        call()
    except NotOffered:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:240]
        expect(False, f"{what}: {text}; give every new tensor the device of the one it meets")


def decode(model: JudgedComponent, beginning: Any) -> None:
    """Start, two tokens, a reorder, one token."""
    state = model.start(beginning)
    _, state = model.step(state, tokens(2))
    state = model.reorder(state, np.array([1, 0]))
    model.step(state, tokens())


@verifies("MC.8")
def heads_and_positions_are_not_confused(impl: JudgedImplementation) -> None:
    """As many positions as heads give the right result; the two axes are swapped on the way."""
    if not impl.offers("multi_head_attention"):
        return
    component = impl.build("multi_head_attention", config_of(impl, "multi_head_attention"))
    parameters = random_parameters("multi_head_attention", component.config, np.random.default_rng(5))
    component.load(parameters)
    for n in (component.config.num_heads, component.config.num_heads + 3):
        expect_right(impl, component, parameters, n)


@verifies("MC.8")
def permuted_keys_are_read_right(impl: JudgedImplementation) -> None:
    """Keys stored as (B, H, d, S), or with heads behind positions, give the same result."""
    component = impl.build("attention", config_of(impl, "attention"))
    rng = np.random.default_rng(7)
    for n in (3, 5):
        q, k, v = (rng.standard_normal((B, 3, n, d)).astype(np.float32) for d in (12, 12, 5))
        wanted = expected("attention", component.config, {}, {"q": q, "k": k, "v": v})["output"]
        for order in ((0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 1, 3)):
            note_case(f"H=3 T=S={n} d=12, keys in memory as axes {order}", "H=S" if n == 3 else "H!=S")
            laid = np.ascontiguousarray(k.transpose(order)).transpose(np.argsort(order))
            mask = np.ones((n, n), bool)
            seen = component.as_given(q=q, k=laid, v=v, mask=mask)["output"]
            what = f"output for keys in memory as axes {order}"
            expect_close(seen, wanted, what, factor=2 * impl.factor("attention"))


@verifies("MC.9")
def writing_seldom_waits(impl: JudgedImplementation) -> None:
    """32 tokens more cost at most 8 reads of a number more, by every method."""
    from attest.adapters.placement import is_torch
    from attest.adapters.waiting import reads_of_numbers

    if impl.sealed:
        raise NotRun("what its tensors are read for is not seen across a seal; run open")
    offered = [new_component(impl, name) for name in ("generate", "complete") if impl.offers(name)]
    writers = {writer.operation: writer for writer in offered if is_torch(writer.component)}
    if not writers:
        raise NotOffered("nothing that writes holds a torch module as `module` and a `config`")
    for name, writer in writers.items():
        never_ends(writer)
        for method in ("greedy", "beam", "sample"):
            note_case(f"{name} by {method}, 8 and 40 tokens", method)
            few, many = (
                guarded(name, lambda n=n, m=method, w=writer: reads_of_numbers(lambda: written(w, n, m)))  # type: ignore[misc]
                for n in (8, 40)
            )
            each = (many - few) / 32
            said = f"{name} by {method} reads {each:.2f} numbers off tensors for each token"
            expect(each <= MOST_WAITS, f"{said}, should at most {MOST_WAITS}")


def never_ends(writer: JudgedComponent) -> None:
    """Load weights under which the end is never written."""
    held = writer.parameters()
    held["projection.bias"] = held["projection.bias"].copy()
    held["projection.bias"][writer.config.eos_id] = -1e4
    writer.load(held)


def written(writer: JudgedComponent, length: int, method: str) -> Any:
    """What the bare component writes behind a prompt of four ids."""
    prompt = {"generate": "source", "complete": "prompt"}[writer.operation]
    ids = np.random.default_rng(1).integers(3, 11, (B, 4))
    return writer.component(**{prompt: ids, "max_len": length, "method": method})
