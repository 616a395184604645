"""The classes of transformers behind the contract, made from the file of a family: no code per model.

`transformers_model` makes a whole model: a decoder-only one or an encoder-decoder with its cache, or an
encoder.

Shapes: B rows, n new tokens, t tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from attest.adapters.names import place_of
from attest.adapters.rope import rope_parameters
from attest.adapters.t5_settings import settings_of
from attest.adapters.torch import TorchComponent, seeded
from attest.contract import DECODER_ONLY, ENCODER_DECODER, Array, Arrays, Config
from attest.contract.parameters import shapes
from attest.families import Family


def transformers_module(family: Family, config: Config, attention: str | None = None) -> Any:
    """A new model of the family's class in transformers, of this config."""
    import transformers

    names = family.huggingface
    made = getattr(transformers, names.config)(**transformers_settings(family, config))
    if attention is not None:
        made._attn_implementation = attention
    with seeded(config.seed):
        module = getattr(transformers, names.model)(made)
    if config.projection_scale != 1.0:
        module.model_dim = (
            config.projection_scale**-2
        )  # T5 scales its output by model_dim ** -0.5, nothing else
    _widen(module, family, config)
    return module


def _widen(module: Any, family: Family, config: Config) -> None:
    """Give the feed-forward networks their width in code whose config has none, as that of Bloom."""
    if "inner_width" in family.huggingface.fields.values():
        return
    wanted, names = shapes(family.operation, config), family.names_for(config)
    for canonical, own in names.items():
        if ".feed_forward." in canonical and own.endswith(".weight"):
            owner, _, last = own.removesuffix(".weight").rpartition(".")
            rows, columns = wanted[canonical]
            bias = getattr(module.get_submodule(owner), last).bias is not None
            setattr(module.get_submodule(owner), last, torch.nn.Linear(columns, rows, bias))


def transformers_settings(family: Family, config: Config) -> dict[str, Any]:
    """The config as the class of transformers takes it: constants of the family, then our fields."""
    _check_heads(config)
    names = family.huggingface
    flat = {**names.constants, **{key: getattr(config, own) for key, own in names.fields.items()}}
    settings: dict[str, Any] = {}
    for key, value in flat.items():
        outer, dot, inner = key.partition(".")
        if dot:
            settings.setdefault(outer, {})[inner] = value
        else:
            settings[key] = value
    if config.positions == "rotary":
        settings.setdefault("rope_parameters", {}).update(rope_parameters(config))
    if family.operation == "transformer":
        settings.update(settings_of(config))
    special = {"pad_token_id": config.pad_id, "bos_token_id": config.bos_id, "eos_token_id": config.eos_id}
    return {**settings, **special}


def _check_heads(config: Config) -> None:
    """The width of a head is worked out here where none is given, and must not be rounded."""
    heads, width = config.num_heads, config.d_model
    whole = isinstance(heads, int) and isinstance(width, int) and heads > 0
    if whole and config.head_width is None and width % heads:
        raise ValueError(f"num_heads={heads} does not divide d_model={width}; choose a divisor of {width}")


@dataclass
class CachedText:
    """What has been read: the cache of transformers, and which tokens were real."""

    cache: Any
    real: Any  # (B, t)


@dataclass
class CachedTarget(CachedText):
    """The same of an encoder-decoder: what the encoder gave, and which of its tokens are real."""

    memory: Any  # (B, S, D)
    source: Any  # (B, S)


class TransformersModel(TorchComponent):
    """A whole model of transformers. Positions are given, so that padding may stand anywhere."""

    def __init__(self, family: Family, config: Config, attention: str | None = None) -> None:
        module = transformers_module(family, config, attention)
        owned = {name for name, _ in module.named_parameters()}
        names = {c: own for c, own in family.names_for(config).items() if _is_there(own, owned)}
        call: Callable[..., Any] = _CALLS[family.operation]
        super().__init__(module, config, names, lambda m, **tensors: call(m, config, **tensors))


class Decoding(TransformersModel):
    """Steps of several tokens with a cache of transformers; a subclass says how the model is called."""

    def step(self, state: Any, tokens: Array) -> tuple[Array, Any]:
        """Append tokens (B, n); logits (B, n, V)."""
        ids = torch.from_numpy(np.ascontiguousarray(tokens))
        if ids.ndim != 2 or len(ids) != len(state.real) or not ids.shape[1]:
            raise ValueError(
                f"tokens={tuple(ids.shape)} must be ({len(state.real)}, 1 or more); match the state"
            )
        real = torch.cat([state.real, _real(ids, self.config)], 1)
        with torch.no_grad():
            out = self._read_on(state, ids, real)
        wide = torch.float64 if self.config.dtype == "float64" else torch.float32
        return out.logits.to(wide).numpy(), replace(state, cache=out.past_key_values, real=real)

    def _read_on(self, state: Any, ids: Any, real: Any) -> Any:
        raise NotImplementedError

    def reorder(self, state: Any, rows: Array) -> Any:
        """The state whose row i is the old row rows[i]."""
        index = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))
        held = len(state.real)
        if index.ndim != 1 or bool(((index < 0) | (index >= held)).any()):
            raise ValueError(f"rows={index.tolist()} must be row numbers below {held}; give one axis of them")
        if state.real.shape[1]:
            state.cache.batch_select_indices(index)
        chosen = {f.name: getattr(state, f.name)[index] for f in fields(state) if f.name != "cache"}
        return replace(state, **chosen)


class DecoderOnly(Decoding):
    """A model that continues what it reads."""

    def start(self, rows: int) -> CachedText:
        """The state of rows without a token."""
        from transformers import DynamicCache

        if rows < 1:
            raise ValueError(f"rows={rows} must be at least 1; give a number of rows")
        return CachedText(DynamicCache(config=self.module.config), torch.zeros(rows, 0, dtype=torch.bool))

    def _read_on(self, state: Any, ids: Any, real: Any) -> Any:
        return self.module(
            input_ids=ids,
            attention_mask=real.long(),
            position_ids=_positions(real)[:, -ids.shape[1] :],
            past_key_values=state.cache,
            use_cache=True,
        )


class EncoderDecoder(Decoding):
    """A model that reads a source and writes a target."""

    def encode(self, *, source: Array) -> Arrays:
        """memory (B, S, D)."""
        return self.run(lambda source: {"memory": self._memory(source)}, source=source)

    def decode(self, *, target: Array, memory: Array, source: Array) -> Arrays:
        """logits (B, T, V)."""
        return self.run(self._decoded, target=target, memory=memory, source=source)

    def start(self, source: Array) -> CachedTarget:
        """The encoder has read the source, and nothing is written yet."""
        from transformers import DynamicCache, EncoderDecoderCache

        ids = torch.from_numpy(np.ascontiguousarray(source))
        with torch.no_grad():
            memory = self._memory(ids)
        nothing = torch.zeros(len(ids), 0, dtype=torch.bool)
        empty = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return CachedTarget(empty, nothing, memory, _real(ids, self.config))

    def _memory(self, source: Any) -> Any:
        real = _real(source, self.config).long()
        return self.module.get_encoder()(input_ids=source, attention_mask=real).last_hidden_state

    def _decoded(self, target: Any, memory: Any, source: Any) -> dict[str, Any]:
        state = CachedTarget(None, None, memory, _real(source, self.config))
        return {"logits": self._write(state, target, _real(target, self.config), use_cache=False).logits}

    def _read_on(self, state: Any, ids: Any, real: Any) -> Any:
        return self._write(state, ids, real, past_key_values=state.cache, use_cache=True)

    def _write(self, state: Any, ids: Any, real: Any, **cached: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return self.module(
            encoder_outputs=BaseModelOutput(last_hidden_state=state.memory),
            attention_mask=state.source.long(),
            decoder_input_ids=ids,
            decoder_attention_mask=real.long(),
            **cached,
        )


# The others read in one pass and have no cache.
WITH_A_CACHE: Mapping[str, type[TransformersModel]] = {
    DECODER_ONLY.operation: DecoderOnly,
    ENCODER_DECODER.operation: EncoderDecoder,
}


def transformers_model(family: Family, config: Config, attention: str | None = None) -> TransformersModel:
    """The model of this family behind the contract, with what its architecture can do."""
    return WITH_A_CACHE.get(family.operation, TransformersModel)(family, config, attention)


def _is_there(name: str, owned: set[str]) -> bool:
    return bool(set(place_of(name, owned).owned) & owned)


def _real(ids: Any, config: Config) -> Any:
    return torch.ones_like(ids, dtype=torch.bool) if config.pad_id is None else ids != config.pad_id


def _positions(real: Any) -> Any:
    """(B, t): the number of real tokens before each."""
    return (real.long().cumsum(1) - 1).clamp(min=0)


def _language_model(module: Any, config: Config, ids: Any) -> dict[str, Any]:
    real = _real(ids, config)
    out = module(input_ids=ids, attention_mask=real.long(), position_ids=_positions(real), use_cache=False)
    return {"logits": out.logits}


def _masked_language_model(
    module: Any, config: Config, ids: Any, segments: Any | None = None
) -> dict[str, Any]:
    real = _real(ids, config)
    out = module(
        input_ids=ids, attention_mask=real.long(), position_ids=_positions(real), token_type_ids=segments
    )
    return {"logits": out.logits}


def _transformer(module: Any, config: Config, source: Any, target: Any) -> dict[str, Any]:
    out = module(
        input_ids=source,
        attention_mask=_real(source, config).long(),
        decoder_input_ids=target,
        decoder_attention_mask=_real(target, config).long(),
        use_cache=False,
    )
    return {"logits": out.logits}


_CALLS: Mapping[str, Callable[..., dict[str, Any]]] = {
    function.__name__.removeprefix("_"): function
    for function in (_language_model, _masked_language_model, _transformer)
}
