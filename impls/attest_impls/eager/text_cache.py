"""Decoding with a language model a few tokens at a time: what it has read is kept, not read again.

A `Past` is never changed. So a search may go on from an old one as well as from the newest.
"""

from typing import Any

from torch import Tensor

from .language_model import KeysValues, LanguageModel, Past

look_every = 1


def start(model: LanguageModel, prompt: Tensor, capacity: int) -> Past:
    """A past with a row for each row of the prompt, which is read by the first step. It grows as it must."""
    return model.start(prompt.shape[0])


def step(model: LanguageModel, past: Past, tokens: Tensor) -> tuple[Tensor, Past]:
    """Append tokens (B, n): logits (B, n, V) and the past that includes them."""
    return model.read(tokens, past)


def reorder(past: Past, rows: Tensor) -> Past:
    """The past whose row i is the old row rows[i]."""
    return _each(past, lambda x: x.index_select(0, rows), lambda x: x.index_select(0, rows))


def rewind(past: Past, count: int) -> Past:
    """The past without the last `count` tokens of every row."""
    left = past.length - count
    return _each(past, lambda x: x[:, :left], lambda x: x[:, :, :left])


def _each(past: Past, of_tokens: Any, of_heads: Any) -> Past:
    layers = tuple(KeysValues(of_heads(layer.k), of_heads(layer.v)) for layer in past.layers)
    return Past(of_tokens(past.real), of_tokens(past.positions), layers)
