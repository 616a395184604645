"""M3.6 asks that the choice of the embedding's factor is documented where a reader meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_conventions_argue_the_factor() -> None:
    text = (ROOT / "spec" / "conventions.md").read_text()
    section = text.split("## Embeddings and their scale")[1].split("\n## ")[0]
    for word in ("sqrt(D)", "scale_embeddings", "Refused"):
        assert word in section, f"the section on embeddings does not say {word}"


def test_eager_says_what_the_factor_is_for() -> None:
    pytest.importorskip("torch")
    from attest_impls.eager.model import InputEmbedding

    text = InputEmbedding.__doc__ or ""
    for word in ("sqrt(d_model)", "scale_embeddings", "positions"):
        assert word in text, f"InputEmbedding does not say {word}"
