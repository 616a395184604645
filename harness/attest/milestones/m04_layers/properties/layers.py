"""M4: layer normalisation, the encoder layer and the decoder layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import (
    expect,
    expect_close,
    expect_finite,
    expect_near,
    expect_same_bits,
    expect_shape,
)
from attest.checks.flow import by_perturbation, flow, required_maps, within_rows
from attest.checks.side_effects import changed_since, expect_no_side_effects, global_state
from attest.contract import Array, float_dtype
from attest.evidence import note_case
from attest.judging.cases import seeds
from attest.judging.laws import (
    ANY_LENGTH,
    DTYPE,
    FORMULA,
    GRADIENTS,
    MEMORY_LAYOUT,
    RANKS,
    REFUSALS,
    ROW_ALONE,
    SIDE_EFFECTS,
    STATE,
    declare_law,
    law_holds,
    laws_hold,
)
from attest.judging.property import given, verifies
from attest.milestones.m04_layers.cases.layers import (
    LAYERS,
    STACKS,
    LayerCase,
    NormCase,
    layer_cases,
    norm_cases,
)
from attest.milestones.m04_layers.checks import (
    NARROW,
    expect_any_length,
    expect_output,
    has_method,
    output_of,
)
from attest.reference.oracle import expected

SUBLAYER_ENDS = tuple(
    f"{end}.{kind}"
    for end in ("self_attention.output", "cross_attention.output", "feed_forward.outer")
    for kind in ("weight", "bias")
)
# What nn.TransformerEncoderLayer can express: biases always, masks of key padding. Widths from 8: a norm over
# few features may divide by almost nothing, and magnifies roundings beyond 1e-5.
TORCH: dict[str, Any] = {
    "min_width": 8,
    "regimes": ("unit", "init"),
    "biases": (True,),
    "masks": ("none", "padding", "keys"),
}


@verifies("M4.1", large=2)
@given(case=layer_cases(parts=("encoder_layer",), norms=("post",)))
def post_norm_encoder_layer_equals_its_formula(impl: JudgedImplementation, case: LayerCase) -> None:
    """The output is LN1(a + FFN(a)) with a = LN0(x + attention(x))."""
    FORMULA.check(impl, case)


@verifies("M4.1", effort=0.5)
@given(case=layer_cases(parts=("encoder_layer",), norms=("post",)))
def silent_sublayers_leave_two_norms(impl: JudgedImplementation, case: LayerCase) -> None:
    """With both output maps at zero the layer is LN1(LN0(x))."""
    silent = case.silencing(*SUBLAYER_ENDS)
    seen = output_of(case.loaded(impl, silent), case.inputs)
    expect_output(impl, case, seen, case.output_for(parameters=silent))


@verifies("M4.1")
def encoder_layer_works_at_any_length(impl: JudgedImplementation) -> None:
    """One layer called at lengths 1, 2, 3, 4, 5, 9 and 17 equals its formula each time."""
    expect_any_length(impl, "encoder_layer")


@verifies("M4.1a")
@given(case=layer_cases(parts=("encoder_layer",), **TORCH))
def encoder_layer_agrees_with_torch(impl: JudgedImplementation, case: LayerCase) -> None:
    """The output lies within 1e-5 of nn.TransformerEncoderLayer's with the same weights."""
    expect_like_torch(impl, case)


def expect_like_torch(impl: JudgedImplementation, case: LayerCase) -> None:
    """Within 1e-5 of torch's own layer where the output is specified."""
    from attest.adapters.torch_layers import torch_layer_output

    case = case.but(dtype=impl.dtypes[0])
    wanted = torch_layer_output(case.part, case.config, case.parameters, case.inputs)
    seen = output_of(case.loaded(impl), case.inputs)
    tolerance = float(np.max(case.output.bound)) if case.dtype in NARROW else 1e-5
    expect_near(np.where(case.real[..., None], seen, wanted), wanted, tolerance, "output")


@verifies("M4.2", large=2)
@given(case=layer_cases(parts=LAYERS, norms=("pre",)))
def pre_norm_layer_equals_its_formula(impl: JudgedImplementation, case: LayerCase) -> None:
    """Each sublayer gives x + f(LN(x)); a decoder layer reads the memory as it is."""
    case = case.or_else(impl, "encoder_layer")
    FORMULA.check(impl, case)


@verifies("M4.2")
@given(case=layer_cases(parts=LAYERS, norms=("pre",)))
def silent_sublayers_leave_the_identity(impl: JudgedImplementation, case: LayerCase) -> None:
    """With the output maps of all sublayers at zero a pre-norm layer returns its input."""
    case = case.or_else(impl, "encoder_layer")
    silent = case.silencing(*SUBLAYER_ENDS)
    seen = output_of(case.loaded(impl, silent), case.inputs)
    if case.dtype in NARROW:
        expect_output(impl, case, seen, case.output_for(parameters=silent))
    else:
        x = case.inputs["x"]
        expect_same_bits(
            np.where(case.real[..., None], seen, x), x, "output of a layer with silent sublayers"
        )


@verifies("M4.3", large=2)
@given(case=layer_cases(parts=("decoder_layer",)))
def decoder_layer_equals_its_formula(impl: JudgedImplementation, case: LayerCase) -> None:
    """Causal self-attention, cross-attention and feed-forward, in this order, each with residual and norm."""
    FORMULA.check(impl, case)


@verifies("M4.3", effort=0.5)
@given(case=layer_cases(parts=("decoder_layer",), regimes=("unit",)), sublayer=st.integers(0, 2))
def each_sublayer_has_its_own_parameters(impl: JudgedImplementation, case: LayerCase, sublayer: int) -> None:
    """Changing one norm or one attention moves the output as it moves the reference's."""
    moved = (("norm0", "self_attention"), ("norm1", "cross_attention"), ("norm2", "feed_forward"))[sublayer]
    parameters = {n: 0.5 * v + 0.3 if n.startswith(moved) else v for n, v in case.parameters.items()}
    parameters = {n: v.astype(float_dtype(case.dtype)) for n, v in parameters.items()}
    seen = output_of(case.loaded(impl, parameters), case.inputs)
    expect_output(impl, case, seen, case.output_for(parameters=parameters))


@verifies("M4.3")
def decoder_layer_works_at_any_length(impl: JudgedImplementation) -> None:
    """One layer called at lengths 1 to 17, with memories of other lengths, equals its formula each time."""
    expect_any_length(impl, "decoder_layer")


@verifies("M4.3a")
@given(case=layer_cases(parts=("decoder_layer",), **TORCH))
def decoder_layer_agrees_with_torch(impl: JudgedImplementation, case: LayerCase) -> None:
    """The output lies within 1e-5 of nn.TransformerDecoderLayer's with the same weights."""
    expect_like_torch(impl, case)


CROSS: dict[str, Any] = {"parts": ("decoder_layer",), "regimes": ("unit",), "min_width": 4, "max_length": 5}


@verifies("M4.4", effort=0.5)
@given(case=layer_cases(**CROSS, masks=("none", "padding")))
def every_target_position_reads_the_visible_memory(impl: JudgedImplementation, case: LayerCase) -> None:
    """Changing a source position changes every target position that may see it, and nothing else."""
    case = case.sharpest(impl, rebuild=False)
    required = {"memory": required_maps(case.part, case.visible, case.memory_visible)["memory"]}
    expect_flow(case.loaded(impl), case, required)


@verifies("M4.4", effort=0.5)
@given(case=layer_cases(**CROSS, masks=("none", "padding")))
def cross_attention_asks_its_own_position(impl: JudgedImplementation, case: LayerCase) -> None:
    """With the self-attention silent, target position i reaches output i only."""
    case = case.sharpest(impl, rebuild=False)
    silent = case.silencing("self_attention.output.weight", "self_attention.output.bias")
    own = np.broadcast_to(np.eye(case.T, dtype=bool), (case.B, case.T, case.T))
    expect_flow(case.loaded(impl, silent), case, {"x": within_rows(own)})


def expect_flow(component: JudgedComponent, case: LayerCase, required: dict[str, Array]) -> None:
    """Exactly these dependences, found by perturbation."""
    seen = by_perturbation(component, case.inputs, required, seed=case.seed)
    found = flow(required, seen, case.real, means="perturbation")
    expect(found.agrees, found.sentence())


@verifies("M4.4")
@given(case=layer_cases(parts=("decoder_layer",)), length=st.integers(1, 6))
def decoder_layer_reads_a_memory_of_any_length(
    impl: JudgedImplementation, case: LayerCase, length: int
) -> None:
    """The memory may be longer than the target, shorter or as long."""
    case = case.but(S=length).fitted(impl)
    FORMULA.check(impl, case)


law_holds(
    FORMULA,
    "M4.9",
    norm_cases(),
    "layer_norm",
    name="layer_norm_equals_its_formula",
    sentence="(x - mean) / sqrt(variance + eps) * weight + bias, far from zero and for spreads near eps too.",
)


@verifies("M4.9")
def layer_norm_of_a_worked_example(impl: JudgedImplementation) -> None:
    """(1, 0, 0, 0), of mean 1/4 and variance 3/16, becomes (1.732, -0.577, -0.577, -0.577)."""
    case = NormCase(dtype=impl.dtypes[0], D=4)
    note_case("x=(1, 0, 0, 0) weight=1 bias=0", "worked by hand")
    component = impl.build("layer_norm", case.config)
    dtype = float_dtype(case.dtype)
    component.load({"weight": np.ones(4, dtype), "bias": np.zeros(4, dtype)})
    x = np.array([[[1, 0, 0, 0]]], dtype)
    wanted = np.array([[[0.75, -0.25, -0.25, -0.25]]]) / np.sqrt(3 / 16 + 1e-5)
    tolerance = 1e-2 if case.dtype in NARROW else 1e-6
    expect_near(output_of(component, {"x": x}), wanted, tolerance, "output")


@verifies("M4.9", effort=0.5)
@given(case=norm_cases(), value=st.sampled_from((0.0, 1.0, -3.0, 100.0)))
def constant_positions_give_the_bias(impl: JudgedImplementation, case: NormCase, value: float) -> None:
    """A position without any spread gives the bias, and nothing that is not finite."""
    x = np.full_like(case.x, value)
    seen = output_of(case.loaded(impl), {"x": x})
    expect_finite(seen, "output for a constant position")
    expect_close(seen, case.output_for({"x": x}), "output for a constant position")


@verifies("M4.9", effort=0.3)
@given(case=norm_cases(min_width=2), gain=st.sampled_from((1e3, 1e-3)))
def weights_of_any_size_come_through(impl: JudgedImplementation, case: NormCase, gain: float) -> None:
    """Weights and biases of a thousand, and of a thousandth, scale the output: nothing is cut."""
    parameters = {name: (gain * x).astype(x.dtype) for name, x in case.parameters.items()}
    component = impl.build("layer_norm", case.config)
    component.load(parameters)
    wanted = expected("layer_norm", case.config, parameters, {"x": case.x})["output"]
    seen = output_of(component, {"x": case.x})
    expect_close(seen, wanted, f"output for weights times {gain:g}", factor=component.widening)


@verifies("M4.9", effort=0.5)
@given(case=norm_cases(min_width=2), other=seeds())
def each_position_is_normed_on_its_own(impl: JudgedImplementation, case: NormCase, other: int) -> None:
    """A position is normalised by its own features alone, in train mode as in eval."""
    component = case.loaded(impl)
    before = output_of(component, {"x": case.x})
    changed = case.but(seed=other).x.copy()
    changed[0, 0] = case.x[0, 0]
    after = output_of(component, {"x": changed})
    expect_same_bits(after[0, 0], before[0, 0], "output at a position that did not change")
    if has_method(component, "train"):
        component.train(other)
        expect_same_bits(output_of(component, {"x": case.x}), before, "output in train mode")


@verifies("M4.12", effort=0.5)
@given(case=layer_cases())
def a_call_leaves_no_trace(impl: JudgedImplementation, case: LayerCase) -> None:
    """In eval and in train mode inputs, memory, masks, random state and flags are as before."""
    case = case.or_else(impl, "encoder_layer")
    component = case.loaded(impl)
    output_of(component, case.inputs)
    expect_no_side_effects(component, case.inputs)
    expect_no_trace_of_training(component, case)
    component.eval()


law_holds(
    SIDE_EFFECTS,
    "M4.12",
    norm_cases(),
    "layer_norm",
    name="a_norm_leaves_no_trace",
    sentence="Input, random state and flags are as before a call of the norm.",
    effort=0.5,
    needed=False,
)
declare_law(FORMULA, "M4.1", "encoder_layer")
declare_law(FORMULA, "M4.3", "decoder_layer")
declare_law(FORMULA, "M4.2a", *STACKS)
declare_law(SIDE_EFFECTS, "M4.12", *LAYERS, *STACKS)
EVERYWHERE = {ROW_ALONE: "M4.11", MEMORY_LAYOUT: "M4.14", REFUSALS: "M4.15", RANKS: "M4.15a", STATE: "M4.12"}
laws_hold({ANY_LENGTH: "M4.9", DTYPE: "M4.9", GRADIENTS: "M4.8"} | EVERYWHERE, norm_cases(), "layer_norm")
for part, criterion in (("encoder_layer", "M4.1"), ("decoder_layer", "M4.3")):
    laws_hold(
        {ANY_LENGTH: criterion, DTYPE: criterion, GRADIENTS: "M4.8"} | EVERYWHERE,
        layer_cases(parts=(part,)),
        part,
    )
for part in STACKS:
    laws_hold(
        {ANY_LENGTH: "M4.6", DTYPE: "M4.6", GRADIENTS: "M4.8"} | EVERYWHERE, layer_cases(parts=(part,)), part
    )


def expect_no_trace_of_training(component: JudgedComponent, case: LayerCase) -> None:
    """Dropout does not draw from the global generator."""
    if not has_method(component, "train"):
        return
    before = global_state()
    component.train(case.seed)
    first = output_of(component, case.inputs)
    changed = changed_since(before)
    expect(not changed, f"{component.operation} in train mode changed {', '.join(changed)}")
    expect_same_bits(output_of(component, case.inputs), first, "output of a second call with the same seed")


@verifies("M4.13")
def parameters_start_in_a_sound_range(impl: JudgedImplementation) -> None:
    """Norms start at 1 and 0, biases at 0, matrices with variance near 2 / (fan_in + fan_out)."""
    for part in LAYERS:
        if impl.offers(part):
            case = LayerCase(part=part, D=64, H=4, F=256, dtype=impl.dtypes[0])
            note_case(str(case), part)
            component = case.unloaded(impl)
            for name, value in component.parameters().items():
                expect_sound_start(name, value)


def expect_sound_start(name: str, value: Array) -> None:
    """What one parameter may start at."""
    if value.ndim == 2:
        share = float(np.var(value)) * sum(value.shape) / 2
        sentence = f"the variance of {name} is {share:.3g} times 2 / (fan_in + fan_out)"
        expect(0.25 <= share <= 4.0, f"{sentence}, should be between 1/4 and 4 times")
        return
    expect_shape(value, (value.size,), name)
    start = 1.0 if name.endswith("weight") else 0.0
    far = float(np.max(np.abs(value - start), initial=0.0))
    expect(far == 0.0, f"{name} starts up to {far:.3g} away from {start:g}, should start at {start:g}")
