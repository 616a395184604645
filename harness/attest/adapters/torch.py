"""Makes a contract Component of any torch module: `TorchComponent(module, config, names, call)`.

`names` maps canonical names to the module's own in the language of `attest.adapters.names`; a parameter it
does not mention keeps its name, so a module that already uses the canonical names needs no mapping. Biases
may be named even where the config has none, and the projection where it is tied to the embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from attest.adapters.names import Place, flat, places, view
from attest.contract import Array, Arrays, Config, Gradients, float_dtype

_OUTPUTS = ("output", "weights")


class TorchComponent:
    """A torch module behind the contract: numpy in, numpy out, dtype and device from the config.

    The module's forward takes the contract's keywords and returns a tensor (`output`), a pair (`output`,
    `weights`) or a mapping. `call(module, **tensors)` adapts one that does not.
    """

    def __init__(
        self,
        module: Any,
        config: Config,
        names: Mapping[str, str] | None = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self.module = module.to(device=config.device, dtype=getattr(torch, config.dtype)).eval()
        self.config = config
        self._call = call
        self._seed: int | None = None
        self.places = _places(module, names or {}, config)

    def __call__(self, **inputs: Any) -> Arrays:
        return self.run(self._forward, **inputs)

    def run(self, function: Callable[..., Any], **inputs: Any) -> Arrays:
        """Call a function of tensors with arrays, without gradients and in the current mode."""
        with torch.no_grad(), self._randomness():
            return _to_arrays(function(**self.tensors(inputs)), self.config)

    def tensors(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Copies of the arrays on the config's device, floats in its dtype; other values pass as they are."""
        return {name: _to_tensor(value, self.config) for name, value in inputs.items()}

    def parameters(self) -> Arrays:
        return {
            name: _to_array(_joined(parts) + self.places[name].shift, self.config)
            for name, parts in self._read().items()
        }

    def load(self, parameters: Arrays) -> None:
        """Copy the values into the storage that is there, so that compiled code stays valid."""
        targets = self._read()
        _check_names(set(targets), set(parameters))
        for name, parts in targets.items():
            _check_shape(name, parameters[name], _joined(parts))
        with torch.no_grad():
            for name, parts in targets.items():
                value = _to_tensor(parameters[name], self.config) - self.places[name].shift
                for view, piece in zip(self._views(name), value.chunk(len(parts)), strict=True):
                    view.copy_(piece.reshape(view.shape))

    def buffers(self) -> Arrays:
        return {name: _to_array(value, self.config) for name, value in self.module.named_buffers()}

    def train(self, seed: int) -> None:
        self.module.train()
        self._seed = seed

    def eval(self) -> None:
        self.module.eval()
        self._seed = None

    def gradients(self, inputs: Arrays, cotangents: Arrays) -> Gradients:
        tensors = self.tensors(inputs)
        floating = {k: v for k, v in tensors.items() if torch.is_tensor(v) and v.is_floating_point()}
        owned = dict(self.module.named_parameters())
        with torch.enable_grad(), self._randomness():
            for leaf in floating.values():
                leaf.requires_grad_()
            outputs = _named(self._forward(**tensors))
            found = _pull_back(outputs, self.tensors(cotangents), [*floating.values(), *owned.values()])
        by_input = dict(zip(floating, found))
        by_parameter = dict(zip(owned, found[len(floating) :]))
        return Gradients(
            {name: _to_array(value, self.config) for name, value in by_input.items()},
            {name: _to_array(_joined(p), self.config) for name, p in self._read(by_parameter).items()},
        )

    def add_gradients(self, inputs: Arrays, cotangents: Arrays) -> None:
        """A backward pass that adds to `grad` of the module's parameters, as loss.backward() does."""
        with torch.enable_grad(), self._randomness():
            outputs = _named(self._forward(**self.tensors(inputs)))
            given = self.tensors(cotangents)
            asked = [name for name in given if outputs[name].requires_grad]
            torch.autograd.backward([outputs[n] for n in asked], [given[n] for n in asked])

    def held_gradients(self) -> Arrays:
        held = {
            name: torch.zeros_like(p) if p.grad is None else p.grad
            for name, p in self.module.named_parameters()
        }
        return {name: _to_array(_joined(p), self.config) for name, p in self._read(held).items()}

    def zero_gradients(self) -> None:
        self.module.zero_grad()

    def _forward(self, **tensors: Any) -> Any:
        return self._call(self.module, **tensors) if self._call else self.module(**tensors)

    def _randomness(self) -> AbstractContextManager[None]:
        return nullcontext() if self._seed is None else seeded(self._seed, self.config.device)

    def _read(self, values: Mapping[str, Any] | None = None) -> dict[str, list[Any]]:
        """Canonical name to the parameters, or to values under the same names, in the canonical form."""
        source = dict(self.module.named_parameters()) if values is None else values
        return {
            name: [flat(view(source[own].detach(), place, self.config), source[own]) for own in place.owned]
            for name, place in self.places.items()
        }

    def _views(self, name: str) -> list[Any]:
        """Views through which the parameters of one canonical name are written."""
        source, place = dict(self.module.named_parameters()), self.places[name]
        return [view(source[own].detach(), place, self.config) for own in place.owned]


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Draw from this seed inside; the global random state is as before afterwards."""
    devices = [torch.device(device)] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def _places(module: Any, names: Mapping[str, str], config: Config) -> dict[str, Place]:
    """Where each canonical parameter lies in the module, those that `names` does not mention included."""
    known = _names_of_parameters(module)
    owned = list(dict.fromkeys(known.values()))
    found = {
        canonical: replace(place, owned=tuple(known.get(own, own) for own in place.owned))
        for canonical, place in places(names, known).items()
    }
    absent = [canonical for canonical, place in found.items() if not set(place.owned) & set(owned)]
    for canonical in absent:
        if not canonical.endswith(".bias") or _has_all_biases(config):
            told = ", ".join(sorted(owned)) or "none"
            what = f"names[{canonical!r}]={names.get(canonical, canonical)!r}"
            raise ValueError(f"{what} is not a parameter of the module; it has {told}")
        del found[canonical]
    _tied_once(found, config)
    used = {own for place in found.values() for own in place.owned}
    return found | {name: Place((name,)) for name in owned if name not in used}


def _names_of_parameters(module: Any) -> dict[str, str]:
    """Every name of every parameter, to the first one of the same parameter: tied ones have several."""
    first: dict[int, str] = {}
    named = module.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in named}


def _tied_once(found: dict[str, Place], config: Config) -> None:
    """Leave out the projection of a tied model: it is the embedding, which has a name already."""
    seen: dict[tuple[Any, ...], str] = {}
    for canonical in sorted(found):  # embeddings come before the projection
        place = found[canonical]
        other = seen.setdefault((place.owned, place.suffixes), canonical)
        if other == canonical:
            continue
        if not (config.tie and canonical == "projection.weight"):
            raise ValueError(
                f"names[{other!r}] and names[{canonical!r}] are one parameter of the module, "
                f"{' '.join(place.owned)}; give each its own, or tie only where config.tie says so"
            )
        del found[canonical]


def _has_all_biases(config: Config) -> bool:
    return config.bias and config.qkv_bias is not False and config.head_bias is not False


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _check_names(expected: set[str], given: set[str]) -> None:
    if missing := expected - given:
        raise ValueError(f"parameters lacks {sorted(missing)}; give every name that parameters() returns")
    if unknown := given - expected:
        raise ValueError(f"parameters has the unknown {sorted(unknown)}; the module has {sorted(expected)}")


def _check_shape(name: str, value: Array, target: Any) -> None:
    if np.shape(value) != tuple(target.shape):
        raise ValueError(
            f"{name} has shape={np.shape(value)}, not {tuple(target.shape)}; weights are (out, in)"
        )


def _to_tensor(value: Any, config: Config) -> Any:
    """A copy in torch's own memory: never an alias, and always aligned the same way."""
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()  # torch warns about the one and refuses the other
    host = torch.from_numpy(value)
    dtype = getattr(torch, config.dtype) if host.is_floating_point() else _whole(host.dtype)
    return host.to(device=config.device, dtype=dtype, copy=True)


def _whole(dtype: Any) -> Any:
    return dtype if dtype == torch.bool else torch.int64


def _to_array(value: Any, config: Config) -> Array:
    if value.is_meta or isinstance(value, FakeTensor):  # no numbers, see placement.py
        return np.zeros(value.shape, float_dtype(config.dtype) if value.is_floating_point() else np.int64)
    value = value.detach().cpu()
    if value.is_floating_point():
        value = value.to(torch.float64 if float_dtype(config.dtype) == np.float64 else torch.float32)
    return np.array(value.numpy())


def _to_arrays(result: Any, config: Config) -> Arrays:
    return {name: _to_array(value, config) for name, value in _named(result).items()}


def _named(result: Any) -> dict[str, Any]:
    if torch.is_tensor(result):
        return {"output": result}
    pairs = result.items() if isinstance(result, Mapping) else zip(_OUTPUTS, result)
    return {name: value for name, value in pairs if value is not None}


def _pull_back(outputs: Mapping[str, Any], cotangents: Mapping[str, Any], leaves: list[Any]) -> list[Any]:
    """Gradient of sum <cotangent, output> for each leaf; zeros where nothing depends on it."""
    if unknown := set(cotangents) - set(outputs):
        raise ValueError(f"cotangents has the unknown {sorted(unknown)}; the outputs are {sorted(outputs)}")
    wanted = [name for name in cotangents if outputs[name].requires_grad]
    asking = [leaf for leaf in leaves if leaf.requires_grad]
    if not wanted or not asking:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = iter(
        torch.autograd.grad(
            [outputs[n] for n in wanted], asking, [cotangents[n] for n in wanted], allow_unused=True
        )
    )
    values = [next(found) if leaf.requires_grad else None for leaf in leaves]
    return [torch.zeros_like(x) if value is None else value for x, value in zip(leaves, values)]
