"""One value that every builder takes, and what each of its fields may hold.

A field is declared with its rule (`size`, `share`, `choice` ...). `RULES` is the one table of them:
validation, the configs that must be refused, configs typed on the command line and what an implementation
claims (`attest.contract.claims`) read it. `readers` in `attest.contract.operation` answers which operations
read a field.

An *option* is a field that chooses a kind of model, not a size or an id. Its default is the model of 2017; an
implementation claims other values by `supports`. The options that M1 to M6 always ask for name those values
in `asked`; an option that is older than claims is also `tried`, see `Rule`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

ANY = "any"  # every value of an option


class Holds(Enum):
    """What a field of the config holds. The value is the type that is read from a command line."""

    SIZE = "int: a whole number of at least 1"
    COUNT = "int: a whole number of at least 0"
    ID = "int: a token of a vocabulary"
    SHARE = "float: at least 0 and below 1"
    LIMIT = "float: above 0"
    PART = "float: above 0 and at most 1"
    NUMBER = "float"
    FLAG = "bool"
    CHOICE = "str: one of a few words"
    WORD = "str"
    OPTIONS = "tuple"

    @property
    def type(self) -> type[Any]:
        """int, float, bool, str or tuple."""
        known = {"int": int, "float": float, "bool": bool, "str": str, "tuple": tuple}
        return known[self.value.partition(":")[0]]


@dataclass(frozen=True)
class Rule:
    """What a field may hold. Fields of a `topic` are checked together."""

    holds: Holds
    topic: str
    choices: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()  # of an id: the fields with the sizes it must stay below
    divides: str = ""  # of a size: the field it must divide
    optional: bool = False  # None is allowed
    checked: bool = True  # False: every number is allowed
    option: bool = False  # chooses a kind of model; values beside the default are claimed
    asked: tuple[Any, ...] | str = ()  # of an option: values beside the default that need no claim, or ANY
    tried: bool = False  # of an option: where nothing is declared at all, every value is tried
    samples: tuple[Any, ...] = ()  # of an option that holds numbers: what is drawn where any is claimed

    @property
    def known(self) -> tuple[Any, ...]:
        """Every value of an option of words or flags; of one of numbers those that are drawn."""
        return self.choices or self.samples or ((False, True) if self.holds is Holds.FLAG else ())


def _field(default: Any, holds: Holds, topic: str, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(holds, topic, **rule)})


def size(default: int | None, **rule: Any) -> Any:
    """A number of features, heads, layers, tokens or positions."""
    return _field(default, Holds.SIZE, "sizes", optional=default is None, **rule)


def number(default: float | None, holds: Holds, **rule: Any) -> Any:
    """A number that chooses a kind of model."""
    return _field(default, holds, "options", option=True, optional=default is None, **rule)


def choice(default: str, *others: str, topic: str = "options", **rule: Any) -> Any:
    """A word out of a few."""
    return _field(default, Holds.CHOICE, topic, choices=(default, *others), **rule)


def flag(default: bool | None, **rule: Any) -> Any:
    """True or false."""
    return _field(default, Holds.FLAG, "options", option=True, optional=default is None, **rule)


def token(default: int, *vocabularies: str, **rule: Any) -> Any:
    """A special token."""
    return _field(default, Holds.ID, "ids", vocabularies=vocabularies, **rule)


def training(default: Any, holds: Holds, **rule: Any) -> Any:
    """A number that only training reads."""
    return _field(default, holds, "training", **rule)


@dataclass(frozen=True, kw_only=True)
class Config:
    """One flat value for every builder. Not validated here: refusing a bad one is the builder's duty."""

    d_model: int = size(512)
    num_heads: int = size(8, divides="d_model")
    d_ff: int | None = size(None)  # None: 4 * d_model
    num_encoder_layers: int = size(6)
    num_decoder_layers: int = size(6)
    source_vocab: int = size(32)
    target_vocab: int = size(32)
    max_len: int = size(512)
    dropout: float = _field(0.1, Holds.SHARE, "options")
    norm: str = choice("post", "pre", option=True, asked=("pre",), tried=True)
    norm_eps: float = _field(
        1e-5, Holds.NUMBER, "options", option=True, asked=ANY, tried=True, samples=(1e-5, 1e-3, 1e-6)
    )
    # gelu is the exact one
    activation: str = choice("relu", "gelu", "silu", "gelu_tanh", option=True, asked=("gelu",), tried=True)
    gated: bool = flag(False, tried=True)  # the feed-forward network multiplies by an activated gate
    bias: bool = flag(True, asked=(False,), tried=True)  # of every linear map; the norms keep theirs
    scale_embeddings: bool = flag(True, asked=(False,), tried=True)
    tie: bool = flag(False, asked=(True,), tried=True)  # projection.weight is target_embedding.weight
    norm_kind: str = choice("layer", "rms", option=True)
    parallel: bool = flag(False)  # attention and feed-forward read the same x: x + f(norm0 x) + g(norm1 x)
    # Positions. learned: a table of max_len rows; rotary: queries and keys are turned; alibi and relative: a
    # bias on the scores; sinusoidal and learned end at max_len, the others go on.
    positions: str = choice(
        "sinusoidal", "learned", "rotary", "alibi", "relative", "none", option=True, topic="options"
    )
    rotary_base: float = number(10000.0, Holds.LIMIT, samples=(10000.0, 500000.0, 100.0))
    rotary_pairing: str = choice("halves", "interleaved", option=True)  # (i, i + d/2) or (2i, 2i + 1)
    rotary_fraction: float = number(1.0, Holds.PART, samples=(1.0, 0.5))  # the leading part of a head
    # Scaled angles reach further than the model was trained: slow pairs turn by 1 / factor of their angle,
    # fast ones as before. A pair is fast or slow by its turns over the original length; linear scales all.
    rotary_scaling: str = choice("none", "linear", "yarn", "llama3", option=True)
    rotary_factor: float = number(8.0, Holds.LIMIT, samples=(8.0, 2.0, 32.0))
    rotary_original: int = size(8192, option=True, samples=(8192, 64))  # the length that was trained
    rotary_slow_turns: float = number(1.0, Holds.LIMIT, samples=(1.0, 0.5))  # beta_slow, low_freq_factor
    rotary_fast_turns: float = number(32.0, Holds.LIMIT, samples=(32.0, 4.0))  # beta_fast, high_freq_factor
    relative_buckets: int = size(32, option=True, samples=(32, 8, 16))
    relative_distance: int = size(128, option=True, samples=(128, 20, 64))
    # Heads. H query heads share G key heads of width d; query head h reads key head h // (H / G).
    #
    #   G = 4: multi-head     G = 2: grouped     G = 1: multi-query
    #   q0 q1 q2 q3           q0 q1 q2 q3        q0 q1 q2 q3
    #   |  |  |  |            |__|  |__|         |__|__|__|
    #   k0 k1 k2 k3           k0    k1           k0
    num_kv_heads: int | None = size(None, divides="num_heads", option=True, samples=(1, 2, 3))
    head_width: int | None = size(None, option=True, samples=(4, 6))  # None: d_model / num_heads
    window: int | None = size(None, option=True, samples=(1, 2, 3, 5))  # a query sees itself and w - 1 before
    window_sides: str = choice("before", "both", option=True)  # both: and w - 1 behind
    attention_scale: float | None = number(None, Holds.LIMIT, samples=(1.0, 0.3))  # None: 1 / sqrt(d)
    chunk: int = size(64)  # chunked attention reads so many keys at a time
    block: int = size(64)  # block-sparse attention: positions that one entry of `blocks` stands for
    score_cap: float | None = number(None, Holds.LIMIT, samples=(5.0, 1.5))  # scores s become c tanh(s / c)
    sinks: bool = flag(False)  # a learned score for each head, beside those of the keys and without a value
    qk_norm: bool = flag(False)  # RMSNorm of each query and key head, before it is turned
    qkv_bias: bool | None = flag(None)  # None: as bias says
    head_bias: bool | None = flag(None)  # of the last projection; None: as bias says
    embedding_norm: bool = flag(False)  # a norm behind the sum of tokens and positions
    share_embeddings: bool = flag(False)  # source and target have one table, embedding.weight
    projection_scale: float = number(1.0, Holds.LIMIT, samples=(1.0, 0.25))  # of what the projection reads
    segments: int = number(0, Holds.COUNT, samples=(0, 2))  # kinds of segments that are embedded
    pooling: str = choice("mean", "first", "last", option=True)
    num_classes: int = size(2)
    # None is allowed where nothing is padding; those who pad read a whole number.
    pad_id: int = token(0, "source_vocab", "target_vocab", optional=True)
    bos_id: int = token(1, "target_vocab")
    eos_id: int = token(2, "target_vocab")
    mask_id: int = token(3, "source_vocab")
    label_smoothing: float = training(0.0, Holds.SHARE)
    schedule: str = choice("inverse_sqrt", "cosine", topic="training")
    warmup: int = training(4000, Holds.COUNT)
    peak_rate: float = training(1e-3, Holds.NUMBER)  # cosine only
    floor_rate: float = training(0.0, Holds.NUMBER)  # cosine only
    total_steps: int = training(100_000, Holds.COUNT, checked=False)  # cosine only
    clip_norm: float = training(1.0, Holds.LIMIT)
    momentum: float = training(0.9, Holds.SHARE)
    beta1: float = training(0.9, Holds.SHARE)  # of the optimisers of M10; M5's has 0.9, 0.98 and 1e-9
    beta2: float = training(0.98, Holds.SHARE)
    adam_eps: float = training(1e-9, Holds.NUMBER)
    weight_decay: float = training(0.01, Holds.NUMBER)
    dtype: str = _field("float32", Holds.WORD, "run")
    device: str = _field("cpu", Holds.WORD, "run")
    seed: int = _field(0, Holds.COUNT, "run", checked=False)
    options: tuple[tuple[str, str], ...] = _field((), Holds.OPTIONS, "run")

    @property
    def inner_width(self) -> int:
        """Width of the feed-forward layer: d_ff, or four times d_model when it is None."""
        return 4 * self.d_model if self.d_ff is None else self.d_ff

    @property
    def kv_heads(self) -> int:
        """G: the number of key and value heads; num_heads when num_kv_heads is None."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def d_head(self) -> int:
        """d: the width of a head; d_model / num_heads when head_width is None."""
        return self.d_model // self.num_heads if self.head_width is None else self.head_width

    @property
    def ends_at_max_len(self) -> bool:
        """Whether its positions are a table of max_len rows; other kinds go on for ever."""
        return self.positions in ("sinusoidal", "learned")

    def but(self, **changes: Any) -> Config:
        """A copy with some fields changed."""
        return replace(self, **changes)


RULES: Mapping[str, Rule] = {f.name: f.metadata["rule"] for f in fields(Config)}
_DEFAULTS = Config()


def default_of(name: str) -> Any:
    """The value of a field in the model of 2017."""
    return getattr(_DEFAULTS, name)


OPTIONS: Mapping[str, Rule] = {name: rule for name, rule in RULES.items() if rule.option}
