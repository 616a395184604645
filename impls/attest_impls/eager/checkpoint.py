"""A training run on disk: one safetensors file, written aside, then moved into place. Nothing is pickled."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attest.contract import Config

from .optimisation import Adam

FILE = "checkpoint.safetensors"


def save(directory: str, module: nn.Module, optimizer: Adam, config: Config, seed: int) -> None:
    """Parameters, both moments, the step number, the seed, and the config that builds the model."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"steps": str(optimizer.steps), "seed": str(seed), "config": json.dumps(asdict(config))}
    arrays = {name: value.detach().clone() for name, value in _arrays(module, optimizer).items()}
    save_file(arrays, folder / f"{FILE}.part", metadata)
    os.replace(folder / f"{FILE}.part", folder / FILE)


def load(directory: str, module: nn.Module, optimizer: Adam) -> int:
    """Copy everything back into the storage that is there; returns the seed of the run."""
    targets = _arrays(module, optimizer)
    with _opened(directory) as file:
        _check(file, targets)
        with torch.no_grad():
            for name, target in targets.items():
                target.copy_(file.get_tensor(name))
        metadata = file.metadata()
    optimizer.steps = int(metadata["steps"])
    return int(metadata["seed"])


def load_model(directory: str, module: nn.Module) -> None:
    """The parameters alone, for generation."""
    with _opened(directory) as file, torch.no_grad():
        for name, target in module.named_parameters():
            target.copy_(file.get_tensor(f"parameter/{name}"))


def config_of(directory: str) -> Config:
    """The config of the run that was saved."""
    with _opened(directory) as file:
        fields = json.loads(file.metadata()["config"])
    fields["options"] = tuple(tuple(pair) for pair in fields["options"])
    return Config(**fields)


def _arrays(module: nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """Tied parameters appear once, under their first name, and stay tied: values are only copied."""
    named = dict(module.named_parameters())
    arrays = {f"parameter/{name}": value for name, value in named.items()}
    for name, first, second in zip(named, optimizer.first, optimizer.second):
        arrays[f"first/{name}"], arrays[f"second/{name}"] = first, second
    return arrays


def _opened(directory: str) -> safe_open:
    path = Path(directory) / FILE
    if not path.is_file():
        raise ValueError(f"directory={str(directory)!r} holds no {FILE}; give one that save wrote")
    return safe_open(path, "pt")


def _check(file: safe_open, targets: dict[str, Tensor]) -> None:
    if set(file.keys()) != set(targets):
        odd = sorted(set(file.keys()) ^ set(targets))
        raise ValueError(
            f"checkpoint differs from the model in {odd[:3]}; build the model from its own config"
        )
    for name, target in targets.items():
        shape = tuple(file.get_slice(name).get_shape())
        if shape != tuple(target.shape):
            expected = tuple(target.shape)
            raise ValueError(f"{name} shape={shape} is not {expected}; build the model from its own config")
