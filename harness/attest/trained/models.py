"""A trained model on disk that any implementation can read: canonical parameters, config and task."""

from __future__ import annotations

import json
import math
import os
import zipfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config
from attest.registry import printable, sentence
from attest.trained.tasks import Task

PARAMETERS, ABOUT = "parameters.npz", "model.json"
MOST_TEXT, MOST_BYTES = 2**20, 2**32  # a description of a model; its parameters, packed or unpacked


@dataclass(frozen=True)
class SavedModel:
    """What `attest generate` needs: who trained it, on what, its config and its parameters."""

    implementation: str
    task: str
    config: Config
    parameters: dict[str, Array]


def write_model(directory: Path, implementation: str, task: str, config: Config, parameters: Arrays) -> None:
    """Two files beside the implementation's own checkpoint; nothing is pickled."""
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / f"{PARAMETERS}.part"
    with part.open("wb") as file:
        np.savez(file, **dict(parameters))  # type: ignore[arg-type]
    os.replace(part, directory / PARAMETERS)
    about = {"format": 1, "implementation": implementation, "task": task, "config": asdict(config)}
    part = directory / f"{ABOUT}.part"
    part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    os.replace(part, directory / ABOUT)


def read_model(directory: Path) -> SavedModel:
    """The inverse; ValueError where the directory holds no model. Whoever wrote it, nothing of it is run."""
    shown = printable(str(directory))
    try:
        return _read(directory)
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise ValueError(f"directory={shown!r} holds no {missing}; write one with `attest train`") from None
    except (Exception, MemoryError) as error:  # zip, header and JSON of a stranger fail in many ways
        raise ValueError(f"directory={shown!r} cannot be read ({sentence(error)}); train again") from None


def _read(directory: Path) -> SavedModel:
    about = json.loads(_bounded(directory / ABOUT, MOST_TEXT).read_text(encoding="utf-8"))
    if not isinstance(about, dict) or not isinstance(about.get("config"), dict):
        raise ValueError(f"{ABOUT} is no description of a model")
    name, task = about.get("implementation"), about.get("task")
    if not isinstance(name, str) or not isinstance(task, str):
        raise ValueError(f"{ABOUT} names no implementation and task")
    return SavedModel(name, Task(task).name, _config(about["config"]), _parameters(directory / PARAMETERS))


def _parameters(path: Path) -> dict[str, Array]:
    with zipfile.ZipFile(_bounded(path, MOST_BYTES)) as held:
        if sum(entry.file_size for entry in held.infolist()) > MOST_BYTES:
            raise ValueError(f"{path.name} unpacks to more than {MOST_BYTES} bytes")
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    for name, array in found.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} in {path.name} is no array of numbers")
    return found


def _config(given: dict[str, Any]) -> Config:
    """Values of the kinds that the fields have: a list or a text in place of a number fails far away."""
    values = dict(given)
    options = values.pop("options", [])
    if not isinstance(options, list) or not all(_is_pair(pair) for pair in options):
        raise ValueError(f"config.options={options!r} is no list of pairs of words")
    defaults = {field.name: field.default for field in fields(Config)}
    for name, value in values.items():
        if name not in defaults or not _same_kind(value, defaults[name]):
            raise ValueError(f"config.{name}={value!r} is no value of a config")
    return Config(**values, options=tuple((key, value) for key, value in options))


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


def _same_kind(value: Any, default: Any) -> bool:
    if default is None:
        return value is None or isinstance(value, str | int | float)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value is None or type(value) is type(default)


def _bounded(path: Path, most: int) -> Path:
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} has more than {most} bytes")
    return path
