"""A trained model on disk that any implementation can read: canonical parameters, config and task.

A directory holds `parameters.npz` and `model.json`; the second is written last, so that whoever finds it
finds a whole model. `history` says how the training went, `error` why there is no model; files from before
they existed lack both and are read as well.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attest.contract import ENCODER_DECODER, Architecture, Array, Config
from attest.contract.architectures import architecture_named

PARAMETERS, ABOUT = "parameters.npz", "model.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """Who trained it, on what, its config and its parameters."""

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
    """The inverse of `write`; ValueError where the directory holds no model."""
    about = _described(directory)
    if "error" in about:
        raise ValueError(f"directory={str(directory)!r} holds no model ({about['error']}); train again")
    try:
        with np.load(directory / PARAMETERS, allow_pickle=False) as held:
            parameters = {name: held[name] for name in held.files}
        config = Config(**about["config"] | {"options": tuple(map(tuple, about["config"]["options"]))})
        return SavedModel(
            implementation=about["implementation"],
            task=about["task"],
            config=config,
            parameters=parameters,
            architecture=architecture_named(about.get("architecture", ENCODER_DECODER.name)),
            history=about.get("history", {}),
        )
    except FileNotFoundError as error:
        raise _absent(directory, error) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"directory={str(directory)!r} cannot be read ({error}); train again") from None


def _describe(directory: Path, about: dict[str, Any]) -> None:
    part = directory / f"{ABOUT}.part"
    part.write_text(json.dumps({"format": FORMAT, **about}, indent=1) + "\n", encoding="utf-8")
    os.replace(part, directory / ABOUT)


def _described(directory: Path) -> dict[str, Any]:
    try:
        about = json.loads((directory / ABOUT).read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"{ABOUT} is not of format {FORMAT}")
        return about
    except FileNotFoundError as error:
        raise _absent(directory, error) from None
    except (ValueError, OSError) as error:
        raise ValueError(f"directory={str(directory)!r} cannot be read ({error}); train again") from None


def _absent(directory: Path, error: FileNotFoundError) -> ValueError:
    missing = Path(str(error.filename)).name
    return ValueError(f"directory={str(directory)!r} holds no {missing}; write one with `attest train`")
