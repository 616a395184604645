"""M4: stacks of layers, the memory they read, and the gradients that reach their parameters."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_gradients,
    expect_same_bits,
    expect_shape,
)
from attest.checks.flow import by_perturbation, flow, required_maps
from attest.contract import Array, Config
from attest.contract.parameters import shapes
from attest.evidence import note_case
from attest.judging.laws import FORMULA
from attest.judging.property import given, verifies
from attest.milestones.m04_layers.cases.layers import KEY_MASKS, STACKS, LayerCase, layer_cases
from attest.milestones.m04_layers.checks import (
    expect_any_length,
    expect_output,
    expect_parameters,
    expect_same_output,
    has_method,
    output_of,
)
from attest.outcomes import Expected, NotOffered, Violation
from attest.reference.oracle import random_parameters


@verifies("M4.2a", large=2)
@given(case=layer_cases(parts=STACKS))
def stacks_equal_the_reference_in_both_placements(impl: JudgedImplementation, case: LayerCase) -> None:
    """A pre-norm stack applies one more norm after the last layer, a post-norm stack none."""
    FORMULA.check(impl, case)


@verifies("M4.2a")
def only_a_pre_norm_stack_has_a_last_norm(impl: JudgedImplementation) -> None:
    """A pre-norm stack lists norm.weight and norm.bias, a post-norm stack does not."""
    for part, norm in product(STACKS, ("post", "pre")):
        case = LayerCase(part=part, norm=norm, D=8, H=2, F=16, N=2, dtype=impl.dtypes[0])
        note_case(str(case), part, norm)
        expect_exactly_the_parameters(case.unloaded(impl).parameters(), part, case.config)


def expect_exactly_the_parameters(seen: dict[str, Array], part: str, config: Config) -> None:
    """Every canonical name with its shape, and no other."""
    wanted = shapes(part, config)
    missing, more = sorted(wanted.keys() - seen.keys()), sorted(seen.keys() - wanted.keys())
    expect(not missing, f"{part} lists no parameter {', '.join(missing[:3])} ({len(missing)} are missing)")
    expect(not more, f"{part} lists a parameter {', '.join(more[:3])}, which the spec does not give it")
    for name, shape in wanted.items():
        expect_shape(seen[name], shape, name)


@verifies("M4.6", large=2)
@given(case=layer_cases(parts=STACKS, max_depth=4, max_length=4))
def each_layer_computes_with_its_own_weights(impl: JudgedImplementation, case: LayerCase) -> None:
    """Different values in each layer give the reference's output; the other stack's depth does not matter."""
    component = case.loaded(impl)
    expect_parameters(component, case.parameters, case.dtype)
    expect_output(impl, case, output_of(component, case.inputs), case.output)


@verifies("M4.6", effort=0.5)
@given(case=layer_cases(parts=STACKS, regimes=("unit",), max_length=4), layer=st.integers(0, 2))
def changing_one_layer_changes_no_other(impl: JudgedImplementation, case: LayerCase, layer: int) -> None:
    """Loading other values into one layer moves no other layer's, and the output as the reference's."""
    prefix = f"{layer % case.N}."
    changed = {n: v * np.float32(0.5) if n.startswith(prefix) else v for n, v in case.parameters.items()}
    changed = {n: v.astype(case.parameters[n].dtype) for n, v in changed.items()}
    component = case.loaded(impl)
    component.load(changed)
    expect_parameters(component, changed, case.dtype)
    expect_output(impl, case, output_of(component, case.inputs), case.output_for(parameters=changed))


@verifies("M4.6")
def stacks_have_as_many_layers_as_configured(impl: JudgedImplementation) -> None:
    """A stack has 6 layers by default and otherwise as many as configured, independent of the other stack."""
    small = Config(d_model=8, num_heads=2, d_ff=16, dtype=impl.dtypes[0])
    depths = (small, small.but(num_encoder_layers=1, num_decoder_layers=3))
    for part, config in product(STACKS, (*depths, small.but(num_encoder_layers=4, num_decoder_layers=2))):
        count = config.num_encoder_layers if part == "encoder" else config.num_decoder_layers
        note_case(f"{part} of {count} layers", part)
        component = impl.build(part, config)
        expect_exactly_the_parameters(component.parameters(), part, config)


@verifies("M4.6")
def stacks_work_at_any_length(impl: JudgedImplementation) -> None:
    """One stack called at lengths 1, 2, 3, 4, 5, 9 and 17 equals the reference each time."""
    for part in STACKS:
        expect_any_length(impl, part)


@verifies("M4.6a")
def no_two_layers_start_equal(impl: JudgedImplementation) -> None:
    """No weight matrix of a new stack is a copy of another layer's."""
    for part in STACKS:
        case = LayerCase(part=part, D=8, H=2, F=16, N=3, dtype=impl.dtypes[0])
        note_case(str(case), part)
        start = case.unloaded(impl).parameters()
        expect_exactly_the_parameters(start, part, case.config)
        for name in (n for n, v in start.items() if n.startswith("0.") and v.ndim == 2):
            for i, j in combinations(range(case.N), 2):
                first, second = (start[f"{k}.{name[2:]}"] for k in (i, j))
                same = bool(np.array_equal(first, second))
                expect(not same, f"{i}.{name[2:]} and {j}.{name[2:]} of a new {part} are equal")


@verifies("M4.5", large=2)
@given(case=layer_cases(parts=("decoder_layer", "decoder")), cut=st.integers(0, 5))
def the_future_does_not_reach_the_past(impl: JudgedImplementation, case: LayerCase, cut: int) -> None:
    """Changing target inputs after position i leaves outputs up to i the same to the bit."""
    expect_blind_to_the_future(impl, case, min(cut, case.T - 1), "eval")


@verifies("M4.5")
def the_future_is_hidden_on_every_path(impl: JudgedImplementation) -> None:
    """Outputs up to i stay when later inputs change: both norms, eval and train, every mask."""
    paths = product(("decoder_layer", "decoder"), ("post", "pre"), ("none", "padding", "pairs", "shared"))
    for (part, norm, mask), mode in product(paths, ("eval", "train")):
        case = LayerCase(part=part, norm=norm, mask=mask, B=2, T=5, S=4, D=8, H=2, F=16, N=2)
        case = case.but(seed=5, dtype=impl.dtypes[0]).fitted(impl)
        if mode == "train" and not has_method(impl.build(case.part, case.config), "train"):
            continue
        note_case(f"case={case} mode={mode}", part, norm, mask, mode)
        for cut in (0, 2, 3):
            expect_blind_to_the_future(impl, case, cut, mode)


def expect_blind_to_the_future(impl: JudgedImplementation, case: LayerCase, cut: int, mode: str) -> None:
    """Outputs up to `cut` stay while everything after it changes."""
    component = case.loaded(impl)
    if mode == "train":
        component.train(case.seed)
    before = output_of(component, case.inputs)
    x = case.inputs["x"].copy()
    x[:, cut + 1 :] = case.draw(case.rng(6), *x[:, cut + 1 :].shape)
    after = output_of(component, {**case.inputs, "x": x})
    component.eval()
    until = case.real[:, : cut + 1, None]
    past = np.where(until, after[:, : cut + 1], before[:, : cut + 1])
    what = f"after a change of positions behind {cut} in {mode} mode, output"
    expect_same_bits(past, before[:, : cut + 1], what)


@verifies("M4.5", effort=0.5)
@given(
    case=layer_cases(
        parts=("decoder_layer", "decoder"), regimes=("unit",), min_width=4, max_length=5, max_depth=2
    )
)
def the_visible_past_is_read(impl: JudgedImplementation, case: LayerCase) -> None:
    """Position i depends on itself and on what it may see before it."""
    case = case.sharpest(impl, rebuild=False)
    required = {"x": required_maps(case.part, case.visible, None, case.depth)["x"]}
    seen = by_perturbation(case.loaded(impl), case.inputs, required, seed=case.seed)
    found = flow(required, seen, case.real, means="perturbation")
    expect(found.agrees, found.sentence())


@verifies("M4.5")
def lengths_may_change_from_call_to_call(impl: JudgedImplementation) -> None:
    """One decoder called at lengths 5, 9 and 3 hides the future each time."""
    for part, norm in product(("decoder_layer", "decoder"), ("post", "pre")):
        for T in (5, 9, 3):
            case = LayerCase(part=part, norm=norm, B=2, T=T, S=4, D=8, H=2, F=16, N=2, seed=T)
            case = case.but(dtype=impl.dtypes[0]).fitted(impl)
            note_case(f"case={case}", part, norm, f"T={T}")
            FORMULA.check(impl, case)
            expect_blind_to_the_future(impl, case, T // 2, "eval")


@verifies("M4.7")
@given(
    case=layer_cases(parts=("decoder",), regimes=("unit",), min_width=4, max_length=4),
    layer=st.integers(0, 2),
)
def each_layer_alone_reads_the_memory(impl: JudgedImplementation, case: LayerCase, layer: int) -> None:
    """With every other cross-attention silent the output depends on the memory, as the reference's does."""
    case = case.sharpest(impl, rebuild=False)
    others = tuple(f"{i}.cross_attention.output.weight" for i in range(case.N) if i != layer % case.N)
    quiet = case.silencing(*others) if others else case.parameters
    component = case.loaded(impl, quiet)
    before = output_of(component, case.inputs)
    expect_output(impl, case, before, case.output_for(parameters=quiet))
    other = case.draw(case.rng(7), *case.inputs["memory"].shape)
    moved = output_of(component, {**case.inputs, "memory": other}) != before
    expect(bool(moved.any(-1)[case.real].all()), f"layer {layer % case.N} alone does not read the memory")


@verifies("M4.7", effort=0.5)
@given(case=layer_cases(parts=("decoder",), max_length=4))
def all_layers_read_the_same_memory(impl: JudgedImplementation, case: LayerCase) -> None:
    """Every layer reads the memory of this call as it was given."""
    component = case.loaded(impl)
    other = case.draw(case.rng(8), *case.inputs["memory"].shape)
    changed = {**case.inputs, "memory": other}
    expect_output(impl, case, output_of(component, changed), case.output_for(changed))


@verifies("M4.7")
def every_decoder_layer_reads_the_end_of_the_encoder(impl: JudgedImplementation) -> None:
    """In a whole model each decoder layer alone depends on the last encoder layer."""
    if not impl.offers("transformer"):
        return
    config = Config(d_model=8, num_heads=2, d_ff=16, source_vocab=9, target_vocab=9, max_len=8)
    config = config.but(num_encoder_layers=2, num_decoder_layers=2, dtype=impl.sharpest)
    parameters = random_parameters("transformer", config, np.random.default_rng(0))
    ids = np.array([[3, 4, 5], [5, 4, 3]], np.int64)
    for layer in range(config.num_decoder_layers):
        note_case(f"transformer, decoder layer {layer} alone reads the memory", "whole model")
        quiet = {
            n: np.zeros_like(v)
            if "cross_attention.output.weight" in n and f"decoder.{layer}." not in n
            else v
            for n, v in parameters.items()
        }
        last = "encoder.1.feed_forward.outer.weight"
        seen = [logits(impl, config, {**quiet, last: quiet[last] * k}, ids) for k in (1, 2)]
        if seen[0] is None or seen[1] is None:
            return  # a model that does not run is M5's matter
        moved = bool(np.any(seen[0] != seen[1]))
        expect(moved, f"the last encoder layer does not reach decoder layer {layer}")


def logits(
    impl: JudgedImplementation, config: Config, parameters: dict[str, Array], ids: Array
) -> Array | None:
    """The model's logits, or None where it cannot be built or called."""
    try:
        model = impl.build("transformer", config)
        model.load(parameters)
        return model(source=ids, target=ids).get("logits")
    except (NotOffered, Violation):
        return None


@verifies("M4.8")
@given(
    case=layer_cases(
        parts=STACKS, regimes=("unit", "saturated"), min_width=4, min_length=3, max_length=5, max_depth=2
    )
)
def every_parameter_gets_its_gradient(impl: JudgedImplementation, case: LayerCase) -> None:
    """Every gradient is finite and the reference's, and not zero where the reference's is not."""
    case = case.sharpest(impl, rebuild=False)
    component = case.loaded(impl)
    seen = component.gradients(case.inputs, case.cotangents())
    wanted = case.gradients_for()
    for name, want in wanted.items():
        found = {**seen.inputs, **seen.parameters}.get(name)
        expect(found is not None, f"the gradient of {name} is missing")
        expect_not_zero(name, found, want)
    expect_gradients(seen, wanted)


def expect_not_zero(name: str, seen: Array | None, want: Expected) -> None:
    """Where the reference has a gradient that is not rounding alone. The key bias has none: see M4.8."""
    assert seen is not None
    expect_finite(seen, f"the gradient of {name}")
    flows = bool(np.any(np.abs(want.value) > want.bound))
    expect(bool(np.any(seen)) or not flows, f"the gradient of {name} is zero everywhere")


@verifies("M4.10", large=2)
@given(
    case=layer_cases(parts=("encoder",), masks=KEY_MASKS, max_depth=3), junk=st.sampled_from((1e6, 1e3, 1.0))
)
def padding_is_inert_in_the_encoder(impl: JudgedImplementation, case: LayerCase, junk: float) -> None:
    """Content of padded positions leaves the real ones the same to the bit, through every layer."""
    component = case.loaded(impl)
    before = output_of(component, case.inputs)
    x = spoiled(case, case.inputs["x"], ~case.real, junk)
    after = output_of(component, {**case.inputs, "x": x})
    expect_same_output(case, after, before, "after a change of the padding, output")


def spoiled(case: LayerCase, array: Array, hidden: Array, junk: float) -> Array:
    """Junk of either sign at the hidden positions; within the range of float16 where that is judged."""
    size = min(junk, 1e4) if case.dtype == "float16" else junk
    signs = np.where(case.rng(9).random(array.shape) < 0.5, -1.0, 1.0)
    changed: Array = np.where(hidden[..., None], size * signs, array).astype(array.dtype)
    return changed


@verifies("M4.10")
@given(case=layer_cases(parts=("encoder",), masks=("padding",)), row=st.integers(0, 3))
def a_padded_sentence_equals_the_sentence_alone(
    impl: JudgedImplementation, case: LayerCase, row: int
) -> None:
    """A padded sentence gives what the sentence alone gives, within twice the bound."""
    row %= case.B
    component = case.loaded(impl)
    whole = output_of(component, case.inputs)[row : row + 1]
    kept = case.real[row]
    alone = case.alone(row)
    seen = output_of(component, {"x": alone["x"][:, kept], "mask": alone["mask"][..., kept]})[:1]
    wanted = Expected(seen.astype(np.float64), case.output.bound[row : row + 1, kept])
    expect_close_twice(whole[:, kept], wanted, impl.factor(case.part))


def expect_close_twice(seen: Array, wanted: Expected, factor: float) -> None:
    """Within twice the bound of another call of the same component."""
    expect_close(seen, wanted, "against a call without what is hidden, output", factor=2 * factor)


@verifies("M4.10", effort=0.5)
@given(
    case=layer_cases(
        parts=("encoder",), masks=("none", "padding"), regimes=("unit",), min_width=4, max_length=5
    )
)
def the_encoder_looks_both_ways(impl: JudgedImplementation, case: LayerCase) -> None:
    """Every output position depends on every position that is not padding."""
    case = case.sharpest(impl, rebuild=False)
    required = required_maps(case.part, case.visible, None, case.depth)
    seen = by_perturbation(case.loaded(impl), case.inputs, required, seed=case.seed)
    found = flow(required, seen, case.real, means="perturbation")
    expect(not found.gaps.any(), found.sentence())


@verifies("M4.10")
def padding_is_inert_in_training_too(impl: JudgedImplementation) -> None:
    """With dropout on, content of padded positions leaves the real ones the same to the bit."""
    for norm in ("post", "pre"):
        expect_inert_in_training(impl, LayerCase(part="encoder", norm=norm, mask="keys"))


@verifies("M4.10a")
def hidden_memory_is_inert_in_training_too(impl: JudgedImplementation) -> None:
    """With dropout on, what the memory's mask hides leaves the output the same to the bit."""
    for norm in ("post", "pre"):
        expect_inert_in_training(impl, LayerCase(part="decoder", norm=norm, memory_mask="keys"))


def expect_inert_in_training(impl: JudgedImplementation, case: LayerCase) -> None:
    """Passes where there is no train mode."""
    case = case.but(B=2, T=5, S=6, D=8, H=2, F=16, N=2, seed=5, dtype=impl.dtypes[0]).fitted(impl)
    note_case(f"case={case} mode=train", case.part, case.norm)
    component = case.loaded(impl)
    if not has_method(component, "train"):
        return
    name, hidden = ("memory", ~case.memory_allowed[:, 0]) if case.decodes else ("x", ~case.real)
    changed = {**case.inputs, name: spoiled(case, case.inputs[name], hidden, 1e3)}
    component.train(case.seed)
    before, after = output_of(component, case.inputs), output_of(component, changed)
    component.eval()
    expect_same_output(case, after, before, f"after a change of what is hidden in {name}, train mode, output")


@verifies("M4.10a", large=2)
@given(
    case=layer_cases(parts=("decoder",), memory_masks=KEY_MASKS, max_depth=3),
    junk=st.sampled_from((1e6, 1e3, 1.0)),
)
def hidden_memory_is_inert(impl: JudgedImplementation, case: LayerCase, junk: float) -> None:
    """What stands in the memory behind its mask leaves the output the same to the bit."""
    component = case.loaded(impl)
    before = output_of(component, case.inputs)
    memory = spoiled(case, case.inputs["memory"], ~case.memory_allowed[:, 0], junk)
    after = output_of(component, {**case.inputs, "memory": memory})
    expect_same_output(case, after, before, "after a change of the hidden memory, output")


@verifies("M4.10a")
@given(
    case=layer_cases(parts=("decoder",), masks=("none",), memory_masks=("padding", "keys")),
    row=st.integers(0, 3),
)
def hiding_memory_equals_deleting_it(impl: JudgedImplementation, case: LayerCase, row: int) -> None:
    """A row alone with only its visible memory gives the same, within twice the bound."""
    row %= case.B
    component = case.loaded(impl)
    whole = output_of(component, case.inputs)[row : row + 1]
    kept = case.memory_allowed[row, 0]
    alone = case.alone(row)
    hiding = {"memory_mask": alone.pop("memory_mask")[..., kept]} if "mask" in alone else {}
    alone = {**alone, "memory": alone["memory"][:, kept], **hiding}
    alone = alone if hiding else {n: x for n, x in alone.items() if n != "memory_mask"}
    seen = output_of(component, alone)[:1]
    wanted = Expected(seen.astype(np.float64), case.output.bound[row : row + 1])
    expect_close_twice(whole, wanted, impl.factor(case.part))
