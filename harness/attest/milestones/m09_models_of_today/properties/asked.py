"""M9: what M5 and M6 ask of the encoder-decoder, asked of language models."""

from __future__ import annotations

from attest.contract import DECODER_ONLY
from attest.judging.asking import asks

asks(
    DECODER_ONLY,
    {
        "M9.8": ("M6.3",),
        "M9.15": ("M5.2a",),
        "M9.18": ("M5.12", "M6.10", "M6.10b"),
        "M9.20": ("M5.6", "M5.6d", "M5.9", "M5.10"),
        "M9.20a": ("M5.3b",),
        "M9.21": ("M5.6b",),
        "M9.22": ("M5.8", "M5.10c", "M5.11"),
        "M9.23": ("M5.13",),
        "M9.24": ("M6.1", "M6.9"),
        "M9.25": ("M6.2", "M6.2a", "M6.8"),
        "M9.26": (
            "drawing_at_zero_temperature_is_greedy",
            "draws_follow_the_distribution",
            "draws_repeat_with_their_seed",
            "seeds_differ",
        ),
        "M9.27": ("M6.4",),
    },
)
