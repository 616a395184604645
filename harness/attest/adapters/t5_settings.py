"""What a config of T5 says in words that no table of keys can hold: activation, gate and scaled output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attest.contract import Config

# Theirs -> ours. Files of T5 v1.1 say "gated-gelu" and mean gelu_new, which transformers corrects silently.
ACTIVATIONS = {"relu": "relu", "gelu_new": "gelu_tanh", "gelu": "gelu_tanh"}
KEYS = ("feed_forward_proj", "scale_decoder_outputs", "dense_act_fn", "is_gated_act", "tie_word_embeddings")
WORDS = {"relu": "relu", "gelu_tanh": "gelu_new"}
GATED = "gated-"


def settings_of(config: Config) -> dict[str, Any]:
    """Keys of T5Config. It takes the word of a tie for whether the output is scaled."""
    gate = GATED if config.gated else ""
    return {
        "feed_forward_proj": gate + WORDS[config.activation],
        "tie_word_embeddings": config.projection_scale != 1.0,
    }


def fields_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse, of a config.json; KeyError with an activation that T5 does not have."""
    word = str(settings.get("feed_forward_proj", "relu"))
    scaled = settings.get("scale_decoder_outputs", settings.get("tie_word_embeddings")) is not False
    return {
        "activation": ACTIVATIONS[word.removeprefix(GATED)],
        "gated": word.startswith(GATED),
        "projection_scale": float(settings["d_model"]) ** -0.5 if scaled else 1.0,
    }
