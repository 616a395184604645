"""Read a model that transformers saved: config.json and safetensors, through the file of its family.

Nothing in the directory is run or unpickled. Parameters are read when they are asked for and not kept, so
that a large model passes through memory one layer at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attest.adapters.checkpoint_keys import BUFFERS, apart, says_nothing
from attest.adapters.names import flat, place_of, view
from attest.adapters.rope import MAPPINGS, rule_of
from attest.adapters.t5_settings import KEYS, fields_of
from attest.contract import Array, Config
from attest.contract.config_values import fits, what_fits
from attest.contract.parameters import shapes
from attest.families import Family, families, family_named

LARGEST_JSON = 20_000_000  # bytes; the index of a model of 400 billion parameters has 100,000 lines
OWN = {"kv_heads": "num_kv_heads", "d_head": "head_width", "inner_width": "d_ff"}  # properties by their field
OLD = {"rope_theta": "rotary_base"}  # keys of config.json before version 5 of transformers
OLD |= {"rotary_emb_base": "rotary_base", "rotary_pct": "rotary_fraction"}


class CheckpointError(ValueError):
    """A directory that is no checkpoint of a known family; the message names file, key and remedy."""


class Checkpoint:
    """One directory. `config` and `parameters` are those of the contract."""

    def __init__(self, directory: str | Path, family: str = "", dtype: str = "float32") -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise CheckpointError(f"--weights={directory} is no directory; name one with config.json in it")
        self.settings = self._json("config.json")
        self.family = family_named(family) if family else self._family()
        self.config = self._config().but(dtype=dtype)
        self.parameters = Parameters(self)

    def _family(self) -> Family:
        kind = str(self.settings.get("model_type"))
        if kind not in families():
            known = ", ".join(families())
            raise CheckpointError(f"config.json: model_type={kind!r} is no known family; use one of {known}")
        return families()[kind]

    def _json(self, name: str) -> dict[str, Any]:
        path = self.directory / name
        try:
            if path.stat().st_size > LARGEST_JSON:
                raise CheckpointError(f"{name} is larger than {LARGEST_JSON} bytes; this is no such file")
            found = json.loads(path.read_text(encoding="utf-8"))
        except CheckpointError:
            raise
        except FileNotFoundError:
            raise CheckpointError(f"{self.directory} has no {name}; name the directory of a model") from None
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{name} cannot be read ({type(error).__name__}); save it again") from None
        if not isinstance(found, dict):
            raise CheckpointError(f"{name} holds no mapping; save it again")
        return found

    def _config(self) -> Config:
        """Our fields, from the keys that the family names; `tie` is what the file holds."""
        self._check_constants()
        read: dict[str, Any] = {}
        for key, own in {**self.family.huggingface.fields, **self._older()}.items():
            value, name = self._setting(key), OWN.get(own, own)
            if value is not None:
                read[name] = self._fitting(key, name, value)
        special = {"pad_token_id": "pad_id", "bos_token_id": "bos_id", "eos_token_id": "eos_id"}
        for key, own in special.items():
            if type(self.settings.get(key)) is int:  # a list of several is not one of ours
                read[own] = self._fitting(key, own, self.settings[key])
        read.setdefault("pad_id", None)
        read |= apart(read)
        if self.family.operation == "transformer":
            read.update(self._of_t5())
        try:
            read |= self._rule()
            config = self.family.config(**read)
        except TypeError as error:
            raise CheckpointError(f"config.json does not fit {self.family.name} ({error})") from None
        layers = max(config.num_encoder_layers, config.num_decoder_layers)
        if layers > len(self.files):
            raise CheckpointError(
                f"config.json has {layers} layers and the weights {len(self.files)} tensors; "
                "config.json is of another model"
            )
        return config.but(tie=not self._has("projection.weight", config.but(tie=False)))

    def _fitting(self, key: str, own: str, value: Any) -> Any:
        """The value, where our field of this name may hold it."""
        if not fits(own, value):
            raise CheckpointError(
                f"config.json: {key}={value!r:.60} is not {what_fits(own)}; save the model again"
            )
        return value

    def _rule(self) -> dict[str, Any]:
        """What slows rotary angles down; refused by name where it is not known."""
        try:
            return rule_of(self.settings)
        except ValueError as error:
            raise CheckpointError(f"config.json: {error}") from None

    def _of_t5(self) -> dict[str, Any]:
        try:
            return fields_of(self.settings)
        except KeyError as error:
            raise CheckpointError(
                f"config.json: feed_forward_proj says {error.args[0]!r}, which is no activation of T5; "
                "choose another checkpoint"
            ) from None

    def _older(self) -> dict[str, str]:
        fields = self.family.huggingface.fields
        return {key: own for key, own in OLD.items() if own in fields.values() and key in self.settings}

    def _setting(self, key: str) -> Any:
        outer, dot, inner = key.partition(".")
        value = self.settings.get(outer)
        return value.get(inner) if dot and isinstance(value, dict) else None if dot else value

    def _check_constants(self) -> None:
        for key, wanted in self.family.huggingface.constants.items():
            seen = self._setting(key)
            if seen is not None and seen != wanted and not key.endswith(("dropout", "pdrop", "prob", "rate")):
                raise CheckpointError(
                    f"config.json: {key}={seen!r} is not what {self.family.name} computes ({wanted!r}); "
                    "choose another checkpoint"
                )
        for key in self._unknown():
            raise CheckpointError(f"config.json: {key} is not implemented; choose a checkpoint without it")

    def _unknown(self) -> Iterator[str]:
        """Keys that are set and that nothing here understands; an inner one with a dot."""
        names = self.family.huggingface
        read = {*names.fields, *names.constants, *OLD}
        read |= set(KEYS) if self.family.operation == "transformer" else set()
        if "rotary" in self.family.values("positions"):
            read |= set(MAPPINGS)  # rule_of knows what may stand in them
        outer = {key.partition(".")[0] for key in read if "." in key} - read
        for key, value in self.settings.items():
            if key in outer and isinstance(value, dict):
                yield from (f"{key}.{inner}" for inner in value if f"{key}.{inner}" not in read)
            elif key not in read and not says_nothing(key, value):
                yield key

    def _has(self, canonical: str, config: Config) -> bool:
        name = self.family.names_for(config).get(canonical, "")
        return bool(set(place_of(name, self.files).owned) & set(self.files))

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The file that holds each tensor, by the names of the whole model.

        A model that was saved without its head has no prefix before them; the files of GPT-2 have none.
        """
        prefix = self.family.prefix
        bare = bool(prefix) and not any(name.startswith(prefix) for name in self._stored)
        return {self._full(name, prefix if bare else ""): file for name, file in self._stored.items()}

    def _full(self, name: str, prefix: str) -> str:
        return name if name == "lm_head.weight" else prefix + name

    @cached_property
    def _stored(self) -> Mapping[str, Path]:
        """The same by the names in the files: one file, or those of an index."""
        from safetensors import SafetensorError, safe_open

        if (self.directory / "model.safetensors.index.json").is_file():
            listed = self._json("model.safetensors.index.json").get("weight_map")
            if not isinstance(listed, dict):
                raise CheckpointError("model.safetensors.index.json has no weight_map; save it again")
            return {str(name): self._shard(str(file)) for name, file in listed.items()}
        path = self._shard("model.safetensors")
        try:
            with safe_open(path, "numpy") as opened:
                return dict.fromkeys(opened.keys(), path)
        except (SafetensorError, OSError):
            raise CheckpointError("model.safetensors cannot be read; save the model again") from None

    def _shard(self, name: str) -> Path:
        path = self.directory / name
        if Path(name).name != name or not os.path.isfile(path):  # False too where no file can have this name
            raise CheckpointError(
                f"{name!r:.60} is no file of {self.directory}; the index may name no other place"
            )
        return path

    def tensor(self, name: str) -> Array:
        """One stored tensor; what numpy has no dtype for becomes float32."""
        from safetensors import SafetensorError, safe_open

        own = name if name in self._stored else name.removeprefix(self.family.prefix)
        try:
            with safe_open(self._stored[own], "numpy") as opened:
                return np.asarray(opened.get_tensor(own))
        except (TypeError, AttributeError):  # bfloat16
            with safe_open(self._stored[own], "pt") as opened:
                return np.asarray(opened.get_tensor(own).float().numpy())
        except (SafetensorError, KeyError, OSError) as error:
            raise CheckpointError(f"tensor {name!r} cannot be read ({type(error).__name__})") from None


class Parameters(Mapping[str, Array]):
    """Canonical name to array, read on each access."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._names = checkpoint.family.names_for(checkpoint.config)
        self._shapes = shapes(checkpoint.family.operation, checkpoint.config)
        if missing := [name for name in self._shapes if not self._there(name)]:
            own = self._names.get(missing[0], "?")
            raise CheckpointError(f"{missing[0]} ({own}) is not in the checkpoint; it is of another family")
        if unread := self._unread():
            raise CheckpointError(
                f"{unread[0]} is in the checkpoint and no parameter of {checkpoint.family.name}; "
                "it is of another model"
            )

    def _unread(self) -> list[str]:
        """Tensors that nothing reads: a bias, a norm or a gate that the family does not have."""
        files = self._checkpoint.files
        read = {own for name in self._shapes for own in place_of(self._names[name], files).owned}
        return sorted(name for name in files if name not in read and not BUFFERS.search(name))

    def _there(self, canonical: str) -> bool:
        owned = place_of(self._names.get(canonical, ""), self._checkpoint.files).owned
        return bool(owned) and set(owned) <= set(self._checkpoint.files)

    def __getitem__(self, canonical: str) -> Array:
        checkpoint = self._checkpoint
        place = place_of(self._names[canonical], checkpoint.files)
        parts = []
        for own in place.owned:
            stored = checkpoint.tensor(own)
            parts.append(flat(view(stored, place, checkpoint.config), stored))
        found = (parts[0] if len(parts) == 1 else np.concatenate(parts)) + np.float32(place.shift)
        if found.shape != self._shapes[canonical]:
            raise CheckpointError(
                f"{canonical} has shape {found.shape} in the checkpoint, not {self._shapes[canonical]}; "
                "config.json is of another model"
            )
        if not np.isfinite(found).all():
            raise CheckpointError(f"{canonical} holds nan or infinity; nothing can be compared with it")
        return np.ascontiguousarray(found, dtype=np.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)
