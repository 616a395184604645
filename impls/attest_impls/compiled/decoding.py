"""Decoding with caches of fixed size, so that one graph serves every step.

The position is a tensor: as a Python integer it would be a guard, and every token would compile anew. What
has not been written yet is hidden by the mask, not by slicing.

Shapes: B rows, H heads, L capacity, S source length, n new tokens, d = D / H, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attest_impls.eager.model import DecoderLayer, Transformer

from .private_torch import keep_address

Pairs = list[tuple[Tensor, Tensor]]  # keys and values of each layer
BLOCK = 32


@dataclass(eq=False)
class State:
    """A prefix as the graph needs it; `length` is for the checks outside.

    The caches have one place more than is ever written, so that a step always reads a part of them: all of
    them would have other strides, and be another graph.
    """

    past: Pairs  # (B, H, L, d), zeros where nothing is written
    memory: Pairs  # (B, H, S, d)
    source_seen: Tensor  # (B, 1, 1, S)
    target_seen: Tensor  # (B, 1, 1, L)
    position: Tensor  # (1,)
    length: int = 0
    spent: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        keep_address(self.target_seen, *(x for pair in (*self.past, *self.memory) for x in pair))

    @property
    def rows(self) -> int:
        return self.source_seen.shape[0]

    @property
    def capacity(self) -> int:
        return self.target_seen.shape[-1] - 1

    def parts(self, new: int) -> tuple[Tensor, Tensor, Tensor, Pairs, Pairs]:
        """What a step of so many new tokens reads and writes.

        On a CPU the end of the caches is left out, in blocks: reading it only to hide it takes time. A CUDA
        graph would have to be recorded again for every length.
        """
        last = min(-(-(self.length + new) // BLOCK) * BLOCK, self.capacity)
        if self.position.is_cuda:
            return self.position, self.source_seen, self.target_seen, self.past, self.memory
        past = [(k[:, :, :last], v[:, :, :last]) for k, v in self.past]
        return self.position, self.source_seen, self.target_seen[..., :last], past, self.memory


def remember(model: Transformer, source: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The encoder, and the keys and values that every decoder layer reads from its memory."""
    encoded = model.encode(source)
    pairs = [layer.cross_attention.keys_values(encoded) for layer in model.decoder.layers()]
    return [(k.contiguous(), v.contiguous()) for k, v in pairs]


def empty_state(model: Transformer, source: Tensor, memory: Pairs, capacity: int) -> State:
    B, H, _, d = memory[0][0].shape
    L = capacity + 1
    past = [(k.new_zeros(B, H, L, d), v.new_zeros(B, H, L, d)) for k, v in memory]
    return State(
        past,
        memory,
        model.seen(source)[:, None],
        torch.zeros(B, 1, 1, L, dtype=torch.bool, device=source.device),
        torch.zeros(1, dtype=torch.int64, device=source.device),
    )


def read_on(
    model: Transformer,
    tokens: Tensor,
    position: Tensor,
    source_seen: Tensor,
    target_seen: Tensor,
    past: Pairs,
    memory: Pairs,
) -> Tensor:
    """Logits (B, n, V) after tokens (B, n) that stand at `position`; the caches are written in place."""
    places = position + torch.arange(tokens.shape[1], device=tokens.device)
    x, allowed = embedded_and_visible(model, tokens, places, target_seen)
    for layer, own, theirs in zip(model.decoder.layers(), past, memory):
        x = _layer(layer, x, places, allowed, own, source_seen, theirs)
    return model.projection(model.decoder.norm(x))


def embedded_and_visible(
    model: Transformer, tokens: Tensor, places: Tensor, target_seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The embedded tokens (B, n, D) and what each of them sees (B, 1, n, L); they count as seen from now."""
    target_seen.index_copy_(3, places, (tokens != model.config.pad_id)[:, None, None])
    so_far = torch.arange(target_seen.shape[-1], device=tokens.device) <= places[:, None]
    embedding = model.target_embedding
    x = torch.nn.functional.embedding(tokens, embedding.weight) * embedding.scale
    return x + embedding.positions.table[places], target_seen & so_far


def _layer(
    layer: DecoderLayer,
    x: Tensor,
    places: Tensor,
    allowed: Tensor,
    own: tuple[Tensor, Tensor],
    source_seen: Tensor,
    theirs: tuple[Tensor, Tensor],
) -> Tensor:
    def read_past(y: Tensor) -> Tensor:
        attention = layer.self_attention
        q, k, v = (attention.split(part) for part in attention.project(y, 0, 3).chunk(3, -1))
        own[0].index_copy_(2, places, k)
        own[1].index_copy_(2, places, v)
        return attention.mixed(q, *own, allowed)

    def read_memory(y: Tensor) -> Tensor:
        attention = layer.cross_attention
        return attention.mixed(attention.split(attention.project(y, 0, 1)), *theirs, source_seen)

    x = layer.join(x, layer.norm0, read_past)
    x = layer.join(x, layer.norm1, read_memory)
    return layer.join(x, layer.norm2, layer.feed_forward)


def reordered(state: State, rows: Tensor, keeps_sources: bool) -> State:
    """The state whose row i is the old row rows[i]. The old state is used up.

    `keeps_sources`: each new row reads the source that the row in its place read, as in beam search.
    """
    state.spent = True
    kept = keeps_sources and len(rows) == state.rows
    return replace(
        state,
        past=_moved_pairs(state.past, rows),
        target_seen=moved(state.target_seen, rows),
        memory=state.memory if kept else _moved_pairs(state.memory, rows),
        source_seen=state.source_seen if kept else moved(state.source_seen, rows),
        position=state.position.clone(),
        spent=False,
    )


def _moved_pairs(pairs: Pairs, rows: Tensor) -> Pairs:
    return [(moved(k, rows), moved(v, rows)) for k, v in pairs]


def moved(x: Tensor, rows: Tensor) -> Tensor:
    """Row i is the old row rows[i]. As many rows as before stay where they are in the memory of a GPU.

    A CUDA graph is recorded for addresses. Without one the copy back is a waste: a fifth of a beam step.
    """
    chosen = x.index_select(0, rows)
    return x.copy_(chosen) if x.is_cuda and len(rows) == len(x) else chosen
