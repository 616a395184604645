"""M9: what M5 and M6 ask of the encoder-decoder, asked of models with one stack and of those like T5."""

from __future__ import annotations

from attest.contract import CLASSIFYING, DECODER_ONLY, MASKED, RELATIVE_ENCODER_DECODER
from attest.judging.asking import asks

asks(
    DECODER_ONLY,
    {
        "M9.4": (
            "a_large_model_equals_its_formula",
            "more_padding_changes_nothing",
            "logits_are_linear_in_the_projection",
        ),
        "M9.5": ("logits_of_a_prefix_are_the_prefix_of_the_logits",),
        "M9.8": ("M6.3",),
        "M9.15": ("M5.2a",),
        "M9.18a": ("a_state_refuses_what_does_not_fit",),
        "M9.18c": ("M5.12",),
        "M9.19a": (
            *("the_optimiser_leaves_no_trace", "the_trainer_leaves_no_trace", "steps_leave_no_trace"),
            *("a_prompt_of_any_layout_is_read", "a_step_of_any_layout_is_read"),
        ),
        "M9.20": ("M5.6", "M5.6d", "M5.9", "M5.10"),
        "M9.20a": ("M5.3b",),
        "M9.20b": ("M5.10a",),
        "M9.21": ("M5.6b",),
        "M9.22": ("M5.8", "M5.10c", "M5.11"),
        "M9.23": ("M5.13",),
        "M9.24": (
            "M6.1",
            "a_row_does_not_depend_on_its_neighbours",
            "a_call_does_not_depend_on_the_one_before",
            "an_answer_follows_the_parameters",
        ),
        "M9.25": ("M6.2", "M6.2a", "M6.8", "a_beam_does_not_depend_on_its_neighbours"),
        "M9.26": (
            "drawing_at_zero_temperature_is_greedy",
            "draws_follow_the_distribution",
            "draws_repeat_with_their_seed",
            "seeds_differ",
        ),
        "M9.26a": ("M6.10",),
        "M9.26b": (
            "generation_is_in_eval_mode_and_leaves_the_mode_alone",
            "generation_leaves_no_trace",
            "a_refusal_leaves_no_trace",
        ),
        "M9.27": ("M6.4",),
    },
)

# What does not depend on a shift of the labels, on BOS and EOS or on a cache.
STEPS = (
    "M5.6",
    "M5.6d",
    "each_step_sees_its_own_batch_only",
    "training_uses_dropout_and_evaluation_does_not",
    "every_step_draws_noise_of_its_own",
    "training_drops_out_in_every_sublayer",
    "evaluation_leaves_the_mode",
)
RUNS = (
    "M5.8",
    "M5.10c",
    "M5.11",
    "a_log_interval_is_at_least_one",
    "a_batch_has_something_to_predict",
    "a_checkpoint_of_another_model_is_refused",
)

asks(
    MASKED,
    {
        "M9.18d": ("M5.12",),
        "M9.19b": ("the_trainer_leaves_no_trace",),
        "M9.30": (*STEPS, "tied_weights_stay_one_array"),
        "M9.30a": ("M5.3b",),
        "M9.30b": ("M5.10a",),
        "M9.31": RUNS,
        "M9.32": ("M5.13",),
    },
)

asks(
    CLASSIFYING,
    {
        "M9.18e": ("M5.12",),
        "M9.19b": ("the_trainer_leaves_no_trace",),
        "M9.33": STEPS,
        "M9.33a": ("M5.3b",),
        "M9.34": RUNS,
        "M9.35": ("M5.13",),
    },
)

asks(
    RELATIVE_ENCODER_DECODER,
    {
        "M9.14b": ("M5.6", "M5.2a", "M5.11", "M5.13"),
        "M9.14c": ("M6.1", "M6.2", "M6.3", "a_row_does_not_depend_on_its_neighbours"),
    },
    effort=0.5,
)
