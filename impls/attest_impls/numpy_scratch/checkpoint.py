"""A training run on disk: one npz file, written aside, then moved into place. Nothing is pickled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from attest.contract import Array

from .arguments import require

FILE = "checkpoint.npz"


def save(directory: str, arrays: Mapping[str, Array], numbers: Mapping[str, int]) -> None:
    """Replace what the directory holds. A run that dies while it writes leaves the old file whole."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{FILE}.part"
    with aside.open("wb") as file:
        np.savez(file, **{**arrays, **{name: np.asarray(n) for name, n in numbers.items()}})  # type: ignore[arg-type]
    os.replace(aside, folder / FILE)


def load(directory: str, arrays: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, int]:
    """Copy every saved array into the one of its name, and return the numbers of these names.

    Everything is read and compared before anything is copied.
    """
    path = Path(directory) / FILE
    require(path.is_file(), "directory", str(directory), f"holds no {FILE}", "give one that save wrote")
    with np.load(path, allow_pickle=False) as file:
        saved = {name: file[name] for name in file.files}
    remedy = "build the trainer from the config of the saved run"
    odd = sorted(set(saved) ^ {*arrays, *names})
    require(not odd, "checkpoint", odd[:3], "differs from the model in these names", remedy)
    for name, array in arrays.items():
        fits = saved[name].shape == array.shape and saved[name].dtype == array.dtype
        rule = f"is not the model's {array.shape} of {array.dtype}"
        require(fits, f"{name}.shape", saved[name].shape, rule, remedy)
    for name, array in arrays.items():
        array[...] = saved[name]
    return {name: int(saved[name]) for name in names}
