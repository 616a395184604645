"""The models of Hugging Face's transformers, each made from the file of its family.

`--impl hf:llama` judges the class of that family; `--impl hf:llama,attention=eager` with another attention.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from attest.contract import Config
from attest.families import family_named


class HuggingFace:
    """One family. What it offers is the whole model of that family."""

    padding = ("none", "right", "left")
    packages = ("transformers",)

    def __init__(self, family: str) -> None:
        self.family = family_named(family)
        self.name = f"hf.{family}"
        self.families = (family,)
        self.dtypes = self.family.dtypes
        self.options: tuple[tuple[str, str], ...] = ()
        self.description = f"{self.family.huggingface.model} of transformers"
        setattr(self, self.family.operation, self._model)

    @property
    def attention(self) -> str | None:
        """The attention that `--impl hf:llama,attention=eager` asks for; None leaves it to transformers."""
        chosen = dict(self.options).get("attention")
        known = self.family.huggingface.attentions
        if chosen not in (None, *known):
            raise ValueError(f"attention={chosen!r} is none of {self.name}; use one of {', '.join(known)}")
        return chosen

    def _model(self, config: Config) -> Any:
        from attest.adapters.huggingface import transformers_model

        return transformers_model(self.family, config, self.attention)


def __getattr__(name: str) -> Any:
    """A function for every family, so that `hf:llama` is the factory `llama` of this module."""
    if name.startswith(("_", "attest_")):  # the hooks of a plugin, which this one does not have
        raise AttributeError(name)

    def make() -> list[HuggingFace]:
        if find_spec("transformers") is None:
            raise ImportError("transformers is not installed; pip install 'attest-transformers[peers]'")
        return [HuggingFace(name)]

    return make
