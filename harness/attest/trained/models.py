"""A trained model on disk that any implementation can read: canonical parameters, config and task."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attest.contract import Array, Arrays, Config

PARAMETERS, ABOUT = "parameters.npz", "model.json"


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
    """The inverse; ValueError where the directory holds no model."""
    try:
        about: dict[str, Any] = json.loads((directory / ABOUT).read_text(encoding="utf-8"))
        with np.load(directory / PARAMETERS, allow_pickle=False) as held:
            parameters = {name: held[name] for name in held.files}
        config = Config(**about["config"] | {"options": tuple(map(tuple, about["config"]["options"]))})
        return SavedModel(about["implementation"], about["task"], config, parameters)
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise ValueError(
            f"directory={str(directory)!r} holds no {missing}; write one with `attest train`"
        ) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"directory={str(directory)!r} cannot be read ({error}); train again") from None
