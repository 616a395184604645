"""A trained model on disk that any implementation can read: canonical parameters, config and task.

A directory holds `parameters.npz` and `model.json`; the second is written last, so that a model
whose model.json exists is whole. `history` says how the training went, `error` why there is no model; older
files lack both and are read as well.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Array, Config
from attest.contract.architectures import architecture_named
from attest.contract.config import RULES
from attest.contract.config_values import fits, what_fits
from attest.contract.operation import operation_of
from attest.contract.parameters import shapes
from attest.reference.validation import refuse_config
from attest.registry import printable, sentence
from attest.trained.named import known_task

PARAMETERS, ABOUT = "parameters.npz", "model.json"
FORMAT = 1
MOST_TEXT, MOST_BYTES = 2**22, 2**32  # a description of a model; its parameters, packed or unpacked
MOST_TABLE = 2**28  # numbers in the table of positions
Read = TypeVar("Read")


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """The implementation that trained it, the task, its config and its parameters."""

    implementation: str
    task: str
    config: Config
    parameters: dict[str, Array]
    architecture: Architecture = ENCODER_DECODER
    history: dict[str, Any] = field(default_factory=dict)  # numbers, words and lists of them

    def write(self, directory: Path) -> None:
        """Two files beside the implementation's own checkpoint; nothing is pickled."""
        directory.mkdir(parents=True, exist_ok=True)
        part = directory / f"{PARAMETERS}.part"
        with part.open("wb") as file:
            np.savez(file, **self.parameters)  # type: ignore[arg-type]
        os.replace(part, directory / PARAMETERS)
        described = {name: getattr(self, name) for name in ("implementation", "task", "history")}
        described |= {"architecture": self.architecture.name, "config": asdict(self.config)}
        _describe(directory, described)


def write_failure(directory: Path, error: str) -> None:
    """In place of a model: why there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    _describe(directory, {"error": error})


def is_written(directory: Path) -> bool:
    """Whether there is a whole model, or the reason why there is none."""
    return (directory / ABOUT).exists()


def failure_of(directory: Path) -> str:
    """Why there is no model; empty where there is one."""
    return str(_described(directory).get("error", ""))


def read_model(directory: Path) -> SavedModel:
    """The inverse of `write`; ValueError where the directory holds no model. Nothing in it is run as code."""
    about = _described(directory)
    if "error" in about:
        shown = printable(str(directory))
        raise ValueError(
            f"directory={shown!r} holds no model ({printable(str(about['error']))[:300]}); train again"
        )
    return _explained(directory, lambda: _model(directory, about))


def check_fit(model: SavedModel) -> None:
    """ValueError where parameters and config are not of one model that can be computed."""
    layers = max(model.config.num_encoder_layers, model.config.num_decoder_layers)
    if layers > len(model.parameters):  # each would have some: their names need not be made up
        raise ValueError(f"the config has {layers} layers and {PARAMETERS} too few arrays; train again")
    if model.config.ends_at_max_len and model.config.max_len * model.config.d_model > MOST_TABLE:
        raise ValueError(f"max_len={model.config.max_len} needs a table that fills the memory; train again")
    record = operation_of(model.architecture.operation)
    refuse_config(model.config, record.reads)
    needed = shapes(record.name, model.config)
    for name in sorted(needed.keys() | model.parameters.keys()):
        if name not in needed or name not in model.parameters:
            where = PARAMETERS if name in needed else f"the config in {ABOUT}"
            raise ValueError(f"parameter={printable(name)!r} is missing in {where}; train again")
        array = model.parameters[name]
        if array.shape != needed[name]:
            raise ValueError(f"{name}.shape={array.shape} is not the config's {needed[name]}; train again")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds nan or infinity, which no answer follows from; train again")


def _model(directory: Path, about: dict[str, Any]) -> SavedModel:
    name, task = about.get("implementation"), about.get("task")
    if not isinstance(name, str) or not isinstance(task, str):
        raise ValueError(f"{ABOUT} names no implementation and task")
    history = about.get("history", {})
    if not isinstance(about.get("config"), dict) or not isinstance(history, dict):
        raise ValueError(f"{ABOUT} is not the description of a model")
    return SavedModel(
        implementation=name,
        task=known_task(task),
        config=_config(about["config"]),
        parameters=_parameters(directory / PARAMETERS),
        architecture=architecture_named(about.get("architecture", ENCODER_DECODER.name)),
        history=history,
    )


def _explained(directory: Path, read: Callable[[], Read]) -> Read:
    """What was read; one sentence where a file is absent or damaged."""
    shown = printable(str(directory))
    try:
        return read()
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise ValueError(f"directory={shown!r} holds no {missing}; write one with `attest train`") from None
    except (Exception, MemoryError) as error:  # a damaged zip, header or JSON fails in many ways
        raise ValueError(f"directory={shown!r} cannot be read ({sentence(error)}); train again") from None


def _describe(directory: Path, about: dict[str, Any]) -> None:
    part = directory / f"{ABOUT}.part"
    part.write_text(json.dumps({"format": FORMAT, **about}, indent=1) + "\n", encoding="utf-8")
    os.replace(part, directory / ABOUT)


def _described(directory: Path) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        about = json.loads(_bounded(directory / ABOUT, MOST_TEXT).read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"{ABOUT} is not of format {FORMAT}")
        return about

    return _explained(directory, read)


def _parameters(path: Path) -> dict[str, Array]:
    with zipfile.ZipFile(_bounded(path, MOST_BYTES)) as held:
        if sum(entry.file_size for entry in held.infolist()) > MOST_BYTES:
            raise ValueError(f"{path.name} unpacks to more than {MOST_BYTES} bytes")
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    for name, array in found.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} in {path.name} is not an array of numbers")
    return found


def _config(given: dict[str, Any]) -> Config:
    """Values that the fields may hold: a text in place of a number fails far away."""
    values = dict(given)
    options = values.pop("options", [])
    if not isinstance(options, list) or not all(_is_pair(pair) for pair in options):
        raise ValueError(f"config.options={options!r:.60} is not a list of pairs of words")
    for name, value in values.items():
        if name not in RULES:
            raise ValueError(f"config.{name}={value!r:.60} is no field of a config")
        if not fits(name, value):
            raise ValueError(f"config.{name}={value!r:.60} is not {what_fits(name)}")
    return Config(**values, options=tuple((key, value) for key, value in options))


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


def _bounded(path: Path, most: int) -> Path:
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} has more than {most} bytes")
    return path
