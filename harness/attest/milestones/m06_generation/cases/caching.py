"""Sequences of start, step and reorder, as one line that replays and as a state machine that draws them.

A script is words joined by dots: `o` opens a session, `s0:2` steps session 0 by two tokens, `w0:2` walks two
tokens, one in a step, `r0:1-1-0` makes its rows the old rows 1, 1 and 0, `b0:2` takes two tokens back.

Shapes: B rows, t tokens so far, n new tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from attest.boundary import JudgedImplementation
from attest.checks.arrays import expect_close, expect_shape
from attest.contract import Architecture, Array
from attest.evidence import current, note_case
from attest.judging.property import print_drawn
from attest.milestones.m06_generation.cases.generation import (
    DEEP_FIELDS,
    LONG_FIELDS,
    DecodingCase,
    model_fields,
)
from attest.outcomes import Expected, Violation
from attest.reference.oracle import expected

# Two decodings under way at once show state that belongs to the component instead of the session.
MAX_SESSIONS = 2
# More rows than a prompt has (up to three): reorders must be able to repeat rows and grow.
MAX_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class CacheCase(DecodingCase):
    """A model, prompts of unequal length, and what is done.

    Where a model continues its prompt, that is the first step; with padding "left" its rows differ in length.
    """

    kind: ClassVar[str] = "cache"

    script: str = ""
    padding: str = "none"

    def of(self, architecture: Architecture) -> Self:
        left = architecture.starts_from_rows and self.seed % 2
        return super().of(architecture).but(padding="left" if left else "none")

    def fitted(self, impl: JudgedImplementation) -> Self:
        case = super().fitted(impl)
        return case if case.padding in impl.claims.padding else case.but(padding="none")

    def another_prompt(self, salt: int, S: int | None = None) -> Array:
        """Every second prompt differs from the first in the last token of its rows alone."""
        if salt % 2 == 0 or S is not None:
            return super().another_prompt(salt, S)
        ids, real = self.prompt.copy(), [i for i in range(self.prompt_vocabulary) if i != self.config.pad_id]
        is_real = ids != self.config.pad_id
        last = ids.shape[1] - 1 - is_real[:, ::-1].argmax(-1)
        rows = np.arange(len(ids))
        places = np.searchsorted(real, ids[rows, last])
        ids[rows, last] = np.array(real)[(places + 1) % len(real)]
        return ids

    def tokens(self, turn: int, rows: int, count: int) -> Array:
        """(rows, count): the tokens fed in one step; every step draws new ones."""
        return self.real_ids(self.rng(3, turn), (rows, count), self.num_classes)

    def first_tokens(self, turn: int, rows: int, count: int) -> Array:
        """The same for the first step of a session, each row with a length of its own where it is padded."""
        tokens = self.tokens(turn, rows, count)
        lengths = self.rng(4, turn).integers(1, count + 1, rows)
        hidden = np.arange(count) < count - lengths[:, None]
        return np.where(hidden, self.config.pad_id, tokens) if self.padding == "left" else tokens


@dataclass
class Session:
    """One decoding under way: the implementation's state beside the tokens it should stand for."""

    prompt: Array
    tokens: Array
    state: Any


class CacheRun:
    """Does what a script says and holds every step to the full pass.

    What was done so far is the case that a failure shows, unless the property draws more than a script.
    """

    def __init__(self, impl: JudgedImplementation, case: CacheCase, *, shows_script: bool = True) -> None:
        self.case, self.model = case.but(script=""), case.model(impl)
        self.shows_script = shows_script
        self.sessions: list[Session] = []
        self.words: list[str] = []

    @property
    def line(self) -> str:
        """The case that replays what was done so far."""
        return print_drawn({"case": self.case.but(script=".".join(self.words))})

    def did(self, word: str) -> None:
        self.words.append(word)
        if self.shows_script:
            current().case = self.line

    def open(self) -> None:
        """Start on a newly drawn prompt, or on as many empty rows."""
        self.did("o")
        prompt = self.case.another_prompt(len(self.sessions))
        empty = np.zeros((len(prompt), 0), np.int64)
        state = self.model.start(self.case.architecture.beginning(prompt))
        self.sessions.append(Session(prompt, empty, state))

    def room(self, index: int) -> int:
        """How many tokens still fit."""
        return self.case.room - int(self.sessions[index].tokens.shape[1])

    def step(self, index: int, count: int) -> None:
        """The new tokens' logits are those of the full pass on all tokens."""
        self.did(f"s{index}:{count}")
        self.read(self.sessions[index], count, at_once=count)

    def walk(self, index: int, count: int) -> None:
        """So many steps of one token each, compared with one full pass after the last."""
        self.did(f"w{index}:{count}")
        self.read(self.sessions[index], count, at_once=1)

    def read(self, session: Session, count: int, at_once: int) -> None:
        """New tokens, so many in a step."""
        draw = self.case.tokens if session.tokens.shape[1] else self.case.first_tokens
        new = draw(len(self.words), len(session.tokens), count)
        session.tokens = np.concatenate([session.tokens, new], axis=1)
        wanted, seen = self.full_pass(session), []
        for first in range(0, count, at_once):
            logits, session.state = self.model.step(session.state, new[:, first : first + at_once])
            expect_shape(logits, (len(new), at_once, self.case.num_classes), "the logits of a cached step")
            seen.append(logits)
        late = Expected(wanted.value[:, -count:], 2 * self.model.widening * wanted.bound[:, -count:])
        said = np.concatenate(seen, axis=1)
        real = (new != self.case.config.pad_id)[..., None]
        expect_close(np.where(real, said, late.value.astype(said.dtype)), late, "the logits of a cached step")

    def full_pass(self, session: Session) -> Expected:
        """(B, t, V) with bounds."""
        architecture = self.case.architecture
        inputs = architecture.reading(session.prompt, session.tokens)
        return expected(architecture.operation, self.case.config, self.case.parameters, inputs)["logits"]

    def fork(self, index: int) -> int:
        """The same session once more, with the same state; its number."""
        self.sessions.append(replace(self.sessions[index]))
        return len(self.sessions) - 1

    def goes_on(self, index: int, by: str) -> bool:
        """Whether a session goes on, and rightly so; False where its state is refused."""
        try:
            if by == "reorder":
                self.reorder(index, list(range(len(self.sessions[index].tokens)))[::-1])
            self.step(index, 1)
        except Violation as violation:
            if violation.raised:
                return False
            raise
        return True

    def reorder(self, index: int, rows: list[int]) -> None:
        """Rows repeat, drop and grow; the tokens follow. Nothing happens where no state is reordered."""
        if not self.model.reorders:
            return
        session = self.sessions[index]
        rows = [*rows, *rows[-1:] * (self.case.least - len(rows))]
        chosen = np.array([row % len(session.tokens) for row in rows], np.int64)
        self.did(f"r{index}:{'-'.join(map(str, chosen))}")
        session.prompt, session.tokens = session.prompt[chosen], session.tokens[chosen]
        session.state = self.model.reorder(session.state, chosen)

    def rewind(self, index: int, count: int) -> None:
        """Without the last tokens, of which one at least is left."""
        session = self.sessions[index]
        count = min(count, session.tokens.shape[1] - 1)
        self.did(f"b{index}:{count}")
        session.tokens = session.tokens[:, : session.tokens.shape[1] - count]
        session.state = self.model.rewind(session.state, count)

    def play(self, script: str) -> None:
        """Every word of a script; steps that no longer fit are left out."""
        for word in script.split("."):
            index, _, argument = word[1:].partition(":")
            if word == "o":
                self.open()
            elif word[0] == "r":
                self.reorder(int(index), [int(row) for row in argument.split("-")])
            elif word[0] == "b":
                self.rewind(int(index), int(argument))
            elif self.room(int(index)):
                go = self.walk if word[0] == "w" else self.step
                go(int(index), min(int(argument), self.room(int(index))))


def machine_of(impl: JudgedImplementation, architecture: Architecture) -> type[RuleBasedStateMachine]:
    """The machine whose runs are scripts for this implementation's model."""

    class CachedDecoding(RuleBasedStateMachine):
        run: CacheRun

        @initialize(case=cache_cases(scripted=False))
        def begin(self, case: CacheCase) -> None:
            fitted = case.of(architecture).fitted(impl)
            note_case(str(fitted), *fitted.regimes)
            self.run = CacheRun(impl, fitted)
            self.run.open()

        @precondition(lambda self: len(self.run.sessions) < MAX_SESSIONS)
        @rule()
        def open(self) -> None:
            self.run.open()

        @rule(which=st.integers(0, MAX_SESSIONS - 1), count=st.sampled_from((1, 1, 2, 3, 5)))
        def step(self, which: int, count: int) -> None:
            index = which % len(self.run.sessions)
            if self.run.room(index):
                self.run.step(index, min(count, self.run.room(index)))

        @rule(which=st.integers(0, MAX_SESSIONS - 1), rows=rows_drawn())
        def reorder_and_step(self, which: int, rows: list[int]) -> None:
            index = which % len(self.run.sessions)
            self.run.reorder(index, rows)
            if self.run.room(index):
                self.run.step(index, 1)

        @rule(which=st.integers(0, MAX_SESSIONS - 1), rows=rows_drawn())
        def reorder(self, which: int, rows: list[int]) -> None:
            self.run.reorder(which % len(self.run.sessions), rows)

    return CachedDecoding


def rows_drawn() -> st.SearchStrategy[list[int]]:
    """Row numbers, taken modulo the rows there are."""
    return st.lists(st.integers(0, MAX_ROWS - 1), min_size=1, max_size=MAX_ROWS)


@st.composite
def cache_cases(draw: st.DrawFn, *, scripted: bool = True) -> CacheCase:
    """One or two layers, up to three rows."""
    fields = {**draw(model_fields()), "symbols": draw(st.integers(1, 6))}
    return CacheCase(**fields, script=draw(scripts()) if scripted else "")


# 40 tokens and more behind a prompt of 70, one step or many at a time, with reorders on the way; and some
# tokens of a deep model, whose cache holds six layers.
LONG_SCRIPTS = (
    CacheCase(**LONG_FIELDS, script="o.s0:18.s0:1.r0:1-0-1.s0:15.w0:36", seed=1),
    CacheCase(**LONG_FIELDS, script="o.w0:40.r0:1-0.w0:4", norm="pre", dtype="float64", seed=2),
    CacheCase(**DEEP_FIELDS, script="o.s0:3.r0:1-0-1.s0:1.w0:4", seed=3),
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """One session, stepped by any sizes with a reorder between; sometimes a second one in the middle."""
    words = ["o"]
    for _ in range(draw(st.integers(1, 4))):
        words.append(f"s0:{draw(st.integers(1, 4))}")
        words.append(
            draw(st.sampled_from(("o.s1:2", "r0:0", "r0:0-0-1", "r0:2-1-0", "r0:1-0-1-0-0", "s0:1")))
        )
    kept = [word for i, word in enumerate(words) if word != "o.s1:2" or word not in words[:i]]
    return ".".join([*kept, "s0:1"])
