"""M9: the layer that decoder-only models are made of."""

from __future__ import annotations

from attest.judging.laws import FORMULA, GRADIENTS, SIDE_EFFECTS_IN_TRAINING, law_holds
from attest.milestones.m09_models_of_today.cases.causal_layers import causal_layer_cases

law_holds(
    FORMULA,
    "M9.4",
    causal_layer_cases(),
    "causal_layer",
    name="causal_layer_equals_its_formula",
    sentence="Attention and feed-forward in residual connections, with every option that is claimed.",
    needed=False,
)
law_holds(
    GRADIENTS,
    "M9.17",
    causal_layer_cases(),
    "causal_layer",
    name="gradients_of_the_causal_layer_are_right",
    effort=0.5,
    needed=False,
)
law_holds(
    SIDE_EFFECTS_IN_TRAINING,
    "M9.19",
    causal_layer_cases(),
    "causal_layer",
    name="the_causal_layer_leaves_no_trace",
    effort=0.25,
    needed=False,
)
