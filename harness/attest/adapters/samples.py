"""A very small torch model with cached decoding, for trying what looks at devices. It learns nothing useful.

Shapes: B batch, S source length, T target length, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from attest.adapters.torch import TorchComponent
from attest.contract import Array, Config


class Sample(nn.Module):  # type: ignore[misc]
    """Logits of each position from the tokens up to it; mask and table are made on the right device."""

    table: Any

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.target_vocab, config.d_model)
        self.projection = nn.Linear(config.d_model, config.target_vocab)
        self.keep_table(torch.arange(config.max_len * config.d_model).reshape(config.max_len, -1).sin())

    def keep_table(self, table: Any) -> None:
        self.register_buffer("table", table, persistent=False)

    def past(self, target: Any) -> Any:
        """(T, T): True up to the diagonal."""
        return torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).tril()

    def forward(self, source: Any, target: Any) -> dict[str, Any]:
        x = self.embedding(target) + self.table[: target.shape[1]]
        x = x + self.embedding(source).mean(1, keepdim=True)
        weights = torch.where(self.past(target), x @ x.transpose(-2, -1), -1e4).softmax(-1)
        return {"logits": self.projection(weights @ x)}


class MaskOnTheCpu(Sample):
    """The causal mask is made where torch makes things by default."""

    def past(self, target: Any) -> Any:
        return torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()


class TableIsNoBuffer(Sample):
    """The table of positions is a plain attribute, which `to(device)` does not move."""

    def keep_table(self, table: Any) -> None:
        self.table = table


class SampleComponent(TorchComponent):
    """The model with steps that read the whole prefix again."""

    def start(self, source: Array) -> Any:
        return self.tensors({"source": np.asarray(source)})["source"], None

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        source, before = state
        new = self.tensors({"tokens": np.asarray(tokens)})["tokens"]
        read = new if before is None else torch.cat([before, new], 1)
        logits = self.run(lambda: self.module(source, read))["logits"]
        return logits[:, -new.shape[1] :], (source, read)

    def reorder(self, state: Any, rows: Array) -> Any:
        chosen = self.tensors({"rows": np.asarray(rows)})["rows"]
        return state[0].index_select(0, chosen), state[1].index_select(0, chosen)


class Cast(SampleComponent):
    """Cached decoding with a position that is counted on the CPU."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        logits, (source, read) = super().step(state, tokens)
        return logits, (source, torch.where(torch.arange(read.shape[1]) >= 0, read, 0))


class Writer(SampleComponent):
    """Writes the likeliest tokens, whatever the method, and looks at its stop flags now and then."""

    look_every = 1  # tokens between two looks

    def _forward(self, **request: Any) -> dict[str, Any]:
        source, config = request["source"], self.config
        read = source.new_full((source.shape[0], 1), config.bos_id)
        ended = torch.zeros(source.shape[0], dtype=torch.bool, device=source.device)
        for n in range(request["max_len"]):
            token = self.module(source, read)["logits"][:, -1].argmax(-1)
            read = torch.cat([read, token[:, None]], 1)
            ended = ended | (token == config.eos_id)
            if (n + 1) % self.look_every == 0 and bool(ended.all()):
                break
        return {"tokens": read[:, None, 1:], "scores": torch.zeros(source.shape[0], 1)}


class PatientWriter(Writer):
    """Looks every eight tokens."""

    look_every = 8


def sample(kind: str, config: Config) -> Any:
    """The model in one of its forms: right, mask, table or cache, or writing: impatient or patient."""
    modules = {"mask": MaskOnTheCpu, "table": TableIsNoBuffer}
    components = {"cache": Cast, "impatient": Writer, "patient": PatientWriter}
    return components.get(kind, SampleComponent)(modules.get(kind, Sample)(config), config)
