"""Defects of loading, tying and refusing, and of what the weights start as."""

from __future__ import annotations

import numpy as np

from attest.contract import Arrays
from attest.judging.catalogue import defect
from attest.reference import ops
from attest.reference.component import ReferenceComponent
from attest.reference.models.language_model import ReferenceLanguageModel
from attest.reference.parts.embedding import Embedding, Logits
from attest.reference.parts.heads import MultiHead
from attest.reference.scope import Scope
from attest.reference.tape import Array, Var, constant, detach


@defect("M9.15", "M9.16")
class text_tied_by_copy(Logits):
    """The head keeps the embedding that was there when it was first used."""

    def weight(self, p: Scope) -> Var:
        weight = super().weight(p)
        if not self.config.tie:
            return weight
        held: Array = self.__dict__.setdefault("held", weight.value.copy())
        return ops.add(weight, constant(held - weight.value))


@defect("M9.15", "M9.4")
class tied_head_scaled_too(Logits):
    """A tied head reads the embedding as it is looked up, times sqrt(D)."""

    def weight(self, p: Scope) -> Var:
        weight = super().weight(p)
        return ops.scale(weight, self.parts.embedding.scale()) if self.config.tie else weight


@defect("M9.15", "M9.17a")
class tied_lookup_not_learned(Embedding):
    """Of a tied table only the head's use has a gradient."""

    def embed(self, ids: Array, table: Var) -> Var:
        return super().embed(ids, detach(table) if self.config.tie else table)


@defect("M9.16")
class silently_random(ReferenceLanguageModel):
    """A name that is missing leaves its array as it was initialised."""

    def load(self, parameters: Arrays) -> None:
        super().load({**self.initial(), **parameters})


@defect("M9.16")
class extra_ignored(ReferenceLanguageModel):
    """A name that the model does not have is passed over."""

    def load(self, parameters: Arrays) -> None:
        super().load({name: value for name, value in parameters.items() if name in self.shapes()})


@defect("M9.16")
class misshapen_cut(ReferenceLanguageModel):
    """An array of another shape is cut to what fits."""

    def load(self, parameters: Arrays) -> None:
        own = self.shapes()
        cut = {n: x[tuple(slice(size) for size in own.get(n, x.shape))] for n, x in parameters.items()}
        super().load(cut)


@defect("M9.16")
class half_loaded_when_refused(ReferenceLanguageModel):
    """Arrays are copied one by one until a name does not fit."""

    def load(self, parameters: Arrays) -> None:
        fits = {n: x for n, x in parameters.items() if np.shape(x) == self.shapes().get(n)}
        super().load({**self.values, **fits})
        super().load(parameters)


@defect("M9.16", "M9.4")
class last_layer_never_loaded(ReferenceLanguageModel):
    """A pattern of names ends one layer too early, where there are several."""

    def load(self, parameters: Arrays) -> None:
        super().load(parameters)
        last = self.config.num_decoder_layers - 1
        kept = {n: x for n, x in self.initial().items() if last and n.startswith(f"decoder.{last}.")}
        super().load({**self.values, **kept})


@defect("M9.16")
class parameters_of_the_first_load(ReferenceLanguageModel):
    """What `parameters` returns is kept from the first load."""

    def parameters(self) -> dict[str, Array]:
        held: dict[str, Array] = self.__dict__.setdefault("held", super().parameters())
        return {name: value.copy() for name, value in held.items()}


@defect("M9.17a")
class group_learns_from_its_first_head(MultiHead):
    """Backward, keys and values of a group get the gradient of one of the heads that read them."""

    def shared(self, x: Var) -> Var:
        H, G = self.config.num_heads, self.config.kv_heads
        heads = [ops.index(x, (slice(None), [self.group_of(h)])) for h in range(H)]
        read = [head if h % (H // G) == 0 else detach(head) for h, head in enumerate(heads)]
        return ops.concat(read, axis=1)


@defect("M9.17a")
class padding_row_is_learned(Embedding):
    """The row of padding is taught like any other where padding itself is asked."""

    def embed(self, ids: Array, table: Var) -> Var:
        right = super().embed(ids, table)
        taught = ops.take(table, np.where(ids == self.config.pad_id, ids, 0))
        return ops.add(right, ops.sub(taught, detach(taught)))


@defect("M9.18c")
class window_of_zero_taken(ReferenceComponent):
    """A window of 0 is taken for none."""

    def check_inner_width(self) -> None:
        if self.config.window != 0:
            super().check_inner_width()


@defect("M9.18c")
class any_number_of_key_heads(ReferenceComponent):
    """Key heads that do not divide the heads are accepted until the model is called."""

    def check_heads(self) -> None:
        if self.operation != "language_model":
            super().check_heads()


@defect("M9.18c")
class any_word_for_positions_taken(ReferenceComponent):
    """A kind of positions that is not known is taken for another."""

    def check_choices(self) -> None:
        if self.config.positions in ("sinusoidal", "learned", "rotary", "alibi", "relative", "none"):
            super().check_choices()


@defect("M9.18a")
class ids_wrap_around(ReferenceLanguageModel):
    """Negative ids count from the end of the table."""

    def check_ids(self, name: str, ids: Array, size: int) -> None:
        super().check_ids(name, np.where(np.asarray(ids) < 0, np.asarray(ids) + size, ids), size)


@defect("M9.20b")
class text_starts_loud(ReferenceLanguageModel):
    """The head of an untrained language model has weights of unit size."""

    def initial(self) -> dict[str, Array]:
        values = super().initial()
        name = "embedding.weight" if self.config.tie else "projection.weight"
        drawn = np.random.default_rng(self.config.seed).standard_normal(values[name].shape)
        return values | {name: drawn.astype(values[name].dtype)}
