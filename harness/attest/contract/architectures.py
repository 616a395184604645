"""An architecture is a value: what a whole model reads, what it is asked for, and how it is decoded.

What M5 and M6 ask is written against it, so that the same questions can be put to a model with other streams
(see `attest.judging.asking`). A stream is one array of ids (B, length) that the model is called with.

Shapes: B batch, P length of a prompt, T length of what is written, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attest.contract.arrays import Array, Arrays
from attest.contract.config import Config
from attest.contract.operation import Kind, operation_of

SHIFTED = "shifted"  # the model reads the written stream without its last column, and is asked what follows
GIVEN = "given"  # `labels` (B, T) beside the streams: the id asked for at each position, pad_id where none is
CLASSES = "classes"  # `labels` (B,) beside the streams: the class of each row, all of which count


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One kind of whole model. Equal values mean the same kind."""

    name: str  # as a case prints it
    operation: str  # builds the model; its record names the streams and their vocabularies
    prompt: str  # the stream that is known before anything is written
    written: str  # the stream that the model writes, or fills in
    labels: str = SHIFTED  # where labels come from
    stack: str  # prefix of the layers that end in the projection
    depths: tuple[str, ...]  # config fields with numbers of layers; the last one is of `stack`
    sublayers: int  # of one layer of `stack`
    projection: str = "projection"
    decodes: bool = True  # whether it has start, step and reorder
    optional: bool = False  # whether its cases draw every option that is claimed; otherwise those of 2017
    always: tuple[tuple[str, Any], ...] = ()  # options that all its models have, where it is optional
    request: str = ""  # the keyword under which `generate` takes the prompt; empty: the name of the stream
    trainer: str = "trainer"  # the operations that train it, optimise it and write with it
    optimizer: str = "optimizer"  # empty: its trainer alone tells how it is optimised
    generate: str = "generate"  # empty: it writes nothing

    def __str__(self) -> str:
        return self.name

    @property
    def vocabularies(self) -> dict[str, str]:
        """Each stream, and the config field with its number of ids; ids that may be left out are none."""
        ports = operation_of(self.operation).takes
        found = {name: port for name, port in ports.items() if port.kind is Kind.IDS and not port.optional}
        return {name: port.below for name, port in found.items()}

    @property
    def streams(self) -> tuple[str, ...]:
        """What the model is called with, in order."""
        return tuple(self.vocabularies)

    @property
    def given(self) -> tuple[str, ...]:
        """Everything that a training batch has: the streams, and the labels where they are apart."""
        return self.streams if self.labels == SHIFTED else (*self.streams, "labels")

    @property
    def prompt_keyword(self) -> str:
        """What `generate` calls the prompt."""
        return self.request or self.prompt

    @property
    def starts_from_rows(self) -> bool:
        """Whether `start` takes a number of empty rows; otherwise it takes the prompt.

        A model that continues its prompt reads it as the first step; one with a stream for the prompt
        reads that stream once, before anything is written.
        """
        return self.prompt == self.written

    def vocabulary(self, stream: str, config: Config) -> int:
        """How many ids a stream may hold."""
        return int(getattr(config, self.vocabularies[stream]))

    def num_classes(self, config: Config) -> int:
        """The last axis of the logits: V, or C where a row has one answer."""
        record = operation_of(self.operation)
        return int(getattr(config, record.sizes[record.gives["logits"].split()[-1]]))

    def depth(self, config: Config) -> int:
        """The number of layers of `stack`."""
        return int(getattr(config, self.depths[-1]))

    def last_norm(self, config: Config) -> str:
        """The name of the norm before the projection."""
        if config.norm == "pre":
            return f"{self.stack}.norm"
        return f"{self.stack}.{self.depth(config) - 1}.norm{self.sublayers - 1}"

    def inputs(self, batch: Arrays) -> dict[str, Array]:
        """What the model reads of a training batch."""
        shifts = self.written if self.labels == SHIFTED else None
        return {s: batch[s][:, :-1] if s == shifts else batch[s] for s in self.streams}

    def reading(self, prompt: Array, tokens: Array) -> dict[str, Array]:
        """The streams of a state that has read these tokens (B, T), and the prompt where it is apart."""
        return (
            {self.written: tokens} if self.starts_from_rows else {self.prompt: prompt, self.written: tokens}
        )

    def beginning(self, prompt: Array) -> Array | int:
        """What `start` takes."""
        return len(prompt) if self.starts_from_rows else prompt

    def opening(self, prompt: Array, config: Config) -> Array:
        """(B, n): what is read before the first token is written: the prompt itself, or BOS."""
        if self.starts_from_rows:
            return np.asarray(prompt, dtype=np.int64)
        return np.full((len(prompt), 1), config.bos_id, dtype=np.int64)

    def continued(self, prompt: Array, tokens: Array, config: Config) -> tuple[dict[str, Array], int]:
        """The streams with tokens (B, T) written behind the opening, and where their logits begin.

        The logits from there on, (B, T + 1, V), say what may follow the prompt, the prompt and one token ...
        """
        opening = self.opening(prompt, config)
        read = np.concatenate([opening, np.asarray(tokens, dtype=np.int64)], axis=1)
        return self.reading(prompt, read), opening.shape[1] - 1


_known: dict[str, Architecture] = {}


def known(architecture: Architecture) -> Architecture:
    """Make an architecture known by its name, so that a printed case of it can be read back."""
    held = _known.setdefault(architecture.name, architecture)
    if held != architecture:
        raise ValueError(
            f"architecture={architecture.name!r} is known with other fields; choose another name"
        )
    return architecture


def architectures() -> Mapping[str, Architecture]:
    """Every known architecture by name."""
    return _known


def architecture_named(name: str) -> Architecture:
    """The inverse of printing one; ValueError where there is none of that name."""
    if name not in _known:
        raise ValueError(f"architecture={name!r} is unknown; one of {', '.join(sorted(_known))}")
    return _known[name]


ENCODER_DECODER = known(
    Architecture(
        name="encoder_decoder",
        operation="transformer",
        prompt="source",
        written="target",
        stack="decoder",
        depths=("num_encoder_layers", "num_decoder_layers"),
        sublayers=3,
    )
)

# The same model with relative positions, as T5 has them, and every option that is claimed beside them.
RELATIVE_ENCODER_DECODER = known(
    replace(
        ENCODER_DECODER,
        name="relative_encoder_decoder",
        optional=True,
        always=(("positions", "relative"),),
    )
)

DECODER_ONLY = known(
    Architecture(
        name="decoder_only",
        operation="language_model",
        prompt="ids",
        written="ids",
        stack="decoder",
        depths=("num_decoder_layers",),
        sublayers=2,
        optional=True,
        request="prompt",
        trainer="language_model_trainer",
        optimizer="language_model_optimizer",
        generate="complete",
    )
)

MASKED = known(
    Architecture(
        name="masked",
        operation="masked_language_model",
        prompt="ids",
        written="ids",
        labels=GIVEN,
        stack="encoder",
        depths=("num_encoder_layers",),
        sublayers=2,
        decodes=False,
        optional=True,
        trainer="masked_language_model_trainer",
        optimizer="",
        generate="",
    )
)

CLASSIFYING = known(
    Architecture(
        name="classifying",
        operation="classifier",
        prompt="ids",
        written="ids",
        labels=CLASSES,
        stack="encoder",
        depths=("num_encoder_layers",),
        sublayers=2,
        decodes=False,
        optional=True,
        trainer="classifier_trainer",
        optimizer="",
        generate="",
    )
)
