"""Modules, Adam, clipping and generation as the contract calls them: arrays in, arrays out.

This is the edge. Configs and inputs are looked at here and nowhere behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attest.adapters.torch import TorchComponent, seeded
from attest.contract import Array, Arrays, Config, float_dtype

from . import cache, text_cache
from .arguments import check_inputs
from .cache import StepwiseDecoder
from .generation import generate
from .language_model import LanguageModel
from .mode import in_mode
from .model import MultiHeadAttention, Transformer, attention
from .optimisation import Adam, clip_factor, global_norm
from .settings import check_config
from .training import token_losses


class CheckedComponent(TorchComponent):
    """A module that is called only with what its operation takes."""

    def __init__(
        self, operation: str, module: nn.Module, config: Config, names: dict[str, str] | None = None
    ) -> None:
        super().__init__(module, config, names)
        self.operation = operation

    def compute(self, **tensors: Any) -> Any:
        """What a call computes from inputs that were looked at."""
        return self.module(**tensors)

    def checked(self, operation: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        """`compute`, once the inputs are looked at."""

        def checked(**inputs: Any) -> Any:
            check_inputs(operation, self.config, **inputs)
            return compute(**inputs)

        return checked

    def _forward(self, **tensors: Any) -> Any:
        return self.checked(self.operation, self.compute)(**tensors)


def component(
    operation: str,
    build: Callable[[Config], nn.Module],
    config: Config,
    kind: type[CheckedComponent] = CheckedComponent,
) -> Any:
    """The module that `build` makes from the config and its seed, behind the contract."""
    check_config(operation, config)
    with seeded(config.seed, config.device):
        module = build(config)
    return kind(operation, module, config)


class AttentionComponent(CheckedComponent):
    """Attention is a function: it has no parameters."""

    def compute(self, **tensors: Any) -> Any:
        return attention(**tensors)


class SteppingComponent(CheckedComponent):
    """A model that also reads one step after another. How a state starts is its own."""

    reads = ""  # the model's name, by which its checks are found
    decoder: StepwiseDecoder

    @torch.no_grad()
    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        ids = self._ids(tokens)
        check_inputs(f"{self.reads}.step", self.config, state=state, tokens=ids)
        logits, grown = self.decoder.step(self.module, state, ids)
        return self.run(lambda: {"logits": logits})["logits"], grown

    @torch.no_grad()
    def reorder(self, state: Any, rows: Array) -> Any:
        index = self._ids(rows)
        check_inputs(f"{self.reads}.reorder", self.config, state=state, rows=index)
        return self.decoder.reorder(state, index)

    def _ids(self, values: Array) -> Tensor:
        return self.tensors({"ids": np.asarray(values)})["ids"]


class TransformerComponent(SteppingComponent):
    """The full model, its two halves, and the decoder one step after another."""

    module: Transformer
    reads = "transformer"

    @property
    def decoder(self) -> StepwiseDecoder:  # type: ignore[override]
        return cache

    def compute(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"logits": self.module(source, target)}

    def compute_memory(self, source: Tensor) -> dict[str, Tensor]:
        return {"memory": self.module.encode(source)}

    def compute_logits(self, target: Tensor, memory: Tensor, source: Tensor) -> dict[str, Tensor]:
        return {"logits": self.module.decode(target, memory, source)}

    def encode(self, *, source: Array) -> Arrays:
        return self.run(self.checked("encode", self.compute_memory), source=source)

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        given = {"target": target, "memory": memory, "source": source}
        return self.run(self.checked("decode", self.compute_logits), **given)

    def attention_maps(self, *, source: Array, target: Array) -> Arrays:
        return self.run(self.checked("transformer", self.compute_maps), source=source, target=target)

    def compute_maps(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The weights that the attentions return, heard by hooks that are gone afterwards."""
        model, heard = self.module, dict[nn.Module, Tensor]()
        attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
        hooks = [m.register_forward_hook(lambda m, _, out: heard.update({m: out[1]})) for m in attentions]
        try:
            with in_mode(model, training=False):
                model(source, target)
        finally:
            for hook in hooks:
                hook.remove()
        return {
            "encoder": torch.stack([heard[layer.self_attention] for layer in model.encoder.layers()]),
            "decoder": torch.stack([heard[layer.self_attention] for layer in model.decoder.layers()]),
            "cross": torch.stack([heard[layer.cross_attention] for layer in model.decoder.layers()]),
        }

    @torch.no_grad()
    def start(self, source: Array) -> Any:
        ids = self._ids(source)
        check_inputs("encode", self.config, source=ids)
        return self.decoder.start(self.module, ids, self.config.max_len)


class LanguageModelComponent(SteppingComponent):
    """The decoder-only model, whole or one step after another."""

    module: LanguageModel
    reads = "language_model"
    decoder: StepwiseDecoder = text_cache

    def compute(self, ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.module(ids)}

    def packed(self, *, ids: Array, lengths: Array) -> Arrays:
        return self.run(self._forward, ids=ids, lengths=lengths)

    def compute_packed(self, ids: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """The loss is the mean over the tokens that follow another of their document."""
        logits, counts = self.module.packed(ids, lengths)
        losses = token_losses(logits[:, :-1], ids[:, 1:], 0.0)  # (B, T - 1)
        return {"logits": logits, "loss": torch.where(counts, losses, 0.0).sum() / counts.sum().clamp(min=1)}

    def _forward(self, **tensors: Any) -> Any:
        """With lengths, of rows that hold several documents: a call of `packed`, or of its gradients."""
        if "lengths" in tensors:
            return self.checked("language_model.packed", self.compute_packed)(**tensors)
        return super()._forward(**tensors)

    def start(self, rows: int) -> Any:
        check_inputs("language_model.start", self.config, rows=rows)
        return self.module.start(int(rows))

    def rewind(self, state: Any, count: int) -> Any:
        check_inputs("language_model.rewind", self.config, state=state, count=count)
        return text_cache.rewind(state, int(count))


class Generator(CheckedComponent):
    """Greedy, beam and sampling; the generator owns its model."""

    decoder: StepwiseDecoder = cache

    def compute(self, **request: Any) -> dict[str, Tensor]:
        tokens, scores = generate(self.module, decoder=self.decoder, **request)
        return {"tokens": tokens, "scores": scores}


class Completer(Generator):
    """The same for a language model, which goes on with its prompt."""

    decoder: StepwiseDecoder = text_cache

    def compute(self, prompt: Tensor, **request: Any) -> dict[str, Tensor]:
        return super().compute(source=prompt, **request)


class Clipping:
    """One factor for all gradients, so that their direction stays."""

    def __init__(self, config: Config) -> None:
        check_config("clip_gradients", config)
        self.limit = config.clip_norm

    def __call__(self, gradients: Arrays) -> Arrays:
        tensors = [torch.tensor(np.asarray(g)) for g in gradients.values()]
        if not tensors:
            return {}
        factor = clip_factor(global_norm(tensors), self.limit)
        return {name: (g * factor.to(g.dtype)).numpy() for name, g in zip(gradients, tensors)}


class Optimizer:
    """Adam over named arrays: those of a model until others are loaded."""

    def __init__(self, config: Config, model: CheckedComponent) -> None:
        self.config = config
        self.load(model.parameters())

    def parameters(self) -> Arrays:
        dtype = float_dtype(self.config.dtype)
        values = (p.detach().cpu().double().numpy().astype(dtype) for p in self._adam.parameters)
        return dict(zip(self._names, values))

    def load(self, parameters: Arrays) -> None:
        self._names = list(parameters)
        self._adam = Adam(self._tensor(value) for value in parameters.values())

    def step(self, gradients: Arrays, rate: float) -> None:
        if set(gradients) != set(self._names):
            odd = sorted(set(gradients) ^ set(self._names))
            raise ValueError(f"gradients differ from the parameters in {odd[:3]}; give one for each")
        self._adam.step([self._tensor(gradients[name]) for name in self._names], rate)

    def _tensor(self, value: Array) -> Tensor:
        dtype = getattr(torch, self.config.dtype)
        return torch.tensor(np.asarray(value), dtype=dtype, device=self.config.device)
