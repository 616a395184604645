"""nn.Transformer with embeddings, sinusoids and a projection around it, and torch's loss, clipping and Adam.

Shapes: B batch, S source length, T target length, D width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent
from attest.contract import Array, Arrays, Config, float_dtype

from . import layers, masks


class Transformer(nn.Module):
    """torch has no positions and no vocabulary; they are added in the usual way.

    The stacks are given to nn.Transformer because its own always end in a norm, also after post-norm layers.
    """

    positions: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        D = config.d_model
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocab, D, padding_idx=config.pad_id)
        self.target_embedding = nn.Embedding(config.target_vocab, D, padding_idx=config.pad_id)
        self.transformer = nn.Transformer(
            D,
            config.num_heads,
            custom_encoder=layers.encoder(config),
            custom_decoder=layers.decoder(config),
            batch_first=True,
        )
        self.projection = nn.Linear(D, config.target_vocab, config.bias)
        if config.tie:
            self.projection.weight = self.target_embedding.weight
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("positions", sinusoids(config), persistent=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)

    def encode(self, source: Tensor) -> Tensor:
        x = self._embed(source, self.source_embedding)
        return self.transformer.encoder(x, src_key_padding_mask=source == self.config.pad_id)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        T, pad = target.shape[1], self.config.pad_id
        x = self.transformer.decoder(
            self._embed(target, self.target_embedding),
            memory,
            # torch's boolean masks are True where attention is forbidden, the contract's where it is allowed.
            tgt_mask=~masks.causal(T, T, target.device),
            tgt_key_padding_mask=target == pad,
            memory_key_padding_mask=source == pad,
        )
        return self.projection(x)

    def _embed(self, ids: Tensor, table: nn.Embedding) -> Tensor:
        scale = math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0
        return self.dropout(table(ids) * scale + self.positions[: ids.shape[1]])


def sinusoids(config: Config) -> Tensor:
    """Sine at even features, cosine at odd ones."""
    feature = torch.arange(config.d_model, dtype=torch.float64)
    place = torch.arange(config.max_len, dtype=torch.float64)[:, None]
    angles = place / 10000 ** (2 * (feature // 2) / config.d_model)
    table = torch.where(feature % 2 == 0, angles.sin(), angles.cos())
    return table.to(getattr(torch, config.dtype))


class TransformerComponent(TorchComponent):
    """The full model, and its two halves."""

    def encode(self, *, source: Array) -> Arrays:
        return self.run(lambda source: {"memory": self.module.encode(source)}, source=source)

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        inputs = {"target": target, "memory": memory, "source": source}
        return self.run(lambda **given: {"logits": self.module.decode(**given)}, **inputs)

    def _forward(self, **tensors: Any) -> Any:
        return {"logits": self.module(**tensors)}


def cross_entropy(config: Config) -> nn.Module:
    return nn.CrossEntropyLoss(ignore_index=config.pad_id, label_smoothing=config.label_smoothing)


def clip(config: Config, gradients: Arrays) -> Arrays:
    """clip_grad_norm_ on copies."""
    # clip_grad_norm_ reads `grad` of parameters, so each gradient needs one to hang on.
    carriers = {name: nn.Parameter(torch.tensor(np.zeros_like(g))) for name, g in gradients.items()}
    for name, carrier in carriers.items():
        carrier.grad = torch.tensor(np.asarray(gradients[name]))
    nn.utils.clip_grad_norm_(list(carriers.values()), config.clip_norm)
    return {name: carrier.grad.numpy().copy() for name, carrier in carriers.items()}


class Optimizer:
    """torch.optim.Adam over named arrays: a transformer's until others are loaded."""

    def __init__(self, config: Config, parameters: Arrays) -> None:
        self.config = config
        self.load(parameters)

    def parameters(self) -> Arrays:
        dtype = float_dtype(self.config.dtype)
        return {name: p.detach().cpu().numpy().astype(dtype) for name, p in self._held.items()}

    def load(self, parameters: Arrays) -> None:
        self._held = {name: nn.Parameter(self._tensor(value)) for name, value in parameters.items()}
        self._adam = torch.optim.Adam(self._held.values(), betas=(0.9, 0.98), eps=1e-9)

    def step(self, gradients: Arrays, rate: float) -> None:
        for name, p in self._held.items():
            p.grad = self._tensor(gradients[name])
        self._adam.param_groups[0]["lr"] = rate
        self._adam.step()

    def _tensor(self, value: Array) -> Tensor:
        dtype = getattr(torch, self.config.dtype)
        return torch.tensor(np.asarray(value), dtype=dtype, device=self.config.device)
