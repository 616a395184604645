"""Defects of beam search and of the length penalty. Shapes: B batch, W width, K results, V vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from attest.judging.catalogue import defect
from attest.reference.decoding.cache import Cache, LayerCache, State
from attest.reference.decoding.generator import Hypothesis, ReferenceGenerator
from attest.reference.decoding.sampling import Ranking, log_normalised
from attest.reference.tape import Array

Scored = list[tuple[Hypothesis, float]]
Extended = tuple[list[Hypothesis], list[Hypothesis], list[int]]


def in_place(rows: Array, held: int) -> Array:
    """Rows as they lie, whatever was asked for."""
    return np.arange(len(rows)) % held


@defect("M6.2a", "M6.2")
class beams_not_reordered(ReferenceGenerator):
    """Tokens follow their beam, the cache does not."""

    def reorder(self, state: State, rows: Array) -> State:
        return super().reorder(state, in_place(rows, len(state.tokens)))


@defect("M6.2a", "M6.3", "M6.9")
class memory_not_reordered(Cache):
    """The keys and values of the source stay where they were when rows move."""

    def reorder_layer(self, layer: LayerCache, rows: Array) -> LayerCache:
        moved = super().reorder_layer(layer, rows)
        stay = in_place(rows, len(layer.memory_keys))
        return LayerCache(moved.keys, moved.values, layer.memory_keys[stay], layer.memory_values[stay])


@defect("M6.2a", "M6.3", "M6.9")
class source_mask_not_reordered(Cache):
    """The padding mask of the source stays where it was when rows move."""

    def reorder(self, state: State, rows: Array) -> State:
        moved = super().reorder(state, rows)
        stay = in_place(rows, len(state.source))
        return State(state.source[stay], moved.tokens, moved.allowed, moved.layers)


@defect("M6.2")
class finished_dropped(ReferenceGenerator):
    """A hypothesis that ends is thrown away; only open ones are returned."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        _, open_, parents = super().extend(live, logs, width)
        return [], open_, parents


@defect("M6.2")
class stops_with_top_beam(ReferenceGenerator):
    """The search ends with the first hypothesis that ends."""

    def done(self, finished: list[Hypothesis], live: list[Hypothesis], width: int) -> bool:
        return bool(finished)


@defect("M6.2")
class stops_by_a_bound(ReferenceGenerator):
    """It ends when no open hypothesis beats the best finished one at its present length."""

    alpha = 0.0

    def beam(self, source: Array, max_len: int, width: int, num_results: int, alpha: float) -> list[Scored]:
        self.alpha = alpha
        return super().beam(source, max_len, width, num_results, alpha)

    def done(self, finished: list[Hypothesis], live: list[Hypothesis], width: int) -> bool:
        if not finished:
            return False
        best = max(self.value(h) for h in finished)
        return super().done(finished, live, width) or best >= max(
            self.value(h) for h in live if h.row == finished[0].row
        )

    def value(self, h: Hypothesis) -> float:
        return self.parts.ranking.score(h.log_probability, len(h.tokens), self.alpha)


@defect("M6.2")
class unnormalised_scores(ReferenceGenerator):
    """Finished hypotheses are ranked by log-probability, whatever their length."""

    def ranked(self, finished: list[Hypothesis], alpha: float) -> Scored:
        return sorted(super().ranked(finished, alpha), key=lambda pair: -pair[0].log_probability)


@defect("M6.2a", "M6.8")
class scores_sum_probabilities(ReferenceGenerator):
    """Probabilities are summed in place of their logarithms."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        return super().extend(live, np.exp(logs), width)


@defect("M6.2")
class as_many_candidates_as_beams(ReferenceGenerator):
    """W continuations are taken, so that hypotheses that end take places from those that live."""

    def best(
        self, live: list[Hypothesis], logs: Array, places: list[int], count: int
    ) -> list[tuple[int, int]]:
        return super().best(live, logs, places, count // 2)


@defect("M6.2")
class any_end_counts(ReferenceGenerator):
    """A hypothesis that ends is finished even if it ranks behind the first W."""

    def counts(self, rank: int, width: int) -> bool:
        return True


@defect("M6.2")
class starts_with_equal_beams(ReferenceGenerator):
    """The first step runs over W copies of the empty hypothesis, so that results come twice."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        if live[0].tokens:
            return super().extend(live, logs, width)
        copies = np.repeat(np.arange(len(live)), width)
        ended, open_, parents = super().extend([live[i] for i in copies], logs[copies], width)
        return ended, open_, [int(copies[i]) for i in parents]


@defect("M6.2")
class results_in_order_of_ending(ReferenceGenerator):
    """The first to finish comes first."""

    def ranked(self, finished: list[Hypothesis], alpha: float) -> Scored:
        scored = super().ranked(finished, alpha)
        return sorted(scored, key=lambda pair: len(pair[0].tokens))


@defect("M6.2")
class open_hypotheses_dropped(ReferenceGenerator):
    """At max_len only what has ended is returned."""

    def open_at_the_end(self, live: list[Hypothesis]) -> list[Hypothesis]:
        return []


@defect("M6.2")
class finished_beams_live_on(ReferenceGenerator):
    """A hypothesis that ended is extended further."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        ended, open_, parents = super().extend(live, logs, width)
        places = {h.tokens: i for i, h in enumerate(live)}
        again = [h for h in ended if h.tokens[:-1] in places]
        return ended, [*again, *open_], [*(places[h.tokens[:-1]] for h in again), *parents]


@defect("M6.2", "M6.9")
class done_rows_collect_on(ReferenceGenerator):
    """A row with W finished hypotheses takes in more while other rows of the batch are searched."""

    def beam(self, source: Array, max_len: int, width: int, num_results: int, alpha: float) -> list[Scored]:
        finished: list[list[Hypothesis]] = [[] for _ in source]
        live = [Hypothesis(row) for row in range(len(source))]
        logits, state = self.begin(source)
        for length in range(1, max_len + 1):
            ended, live, parents = self.extend(live, log_normalised(logits), width)
            for h in ended:
                finished[h.row].append(h)
            if length == max_len or all(self.done(row, live, width) for row in finished):
                break
            logits, state = self.advance_chosen(state, parents, live)
        for h in [h for h in live if not self.done(finished[h.row], live, width)]:
            finished[h.row].append(h)
        return [self.ranked(row, alpha)[:num_results] for row in finished]


@defect("M6.2")
class empty_places_finish(ReferenceGenerator):
    """Places that hold no hypothesis count as finished where their continuation is EOS."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        ended, open_, parents = super().extend(live, logs, width)
        V = logs.shape[-1]
        for row in sorted({h.row for h in live}):
            empty = width - V * sum(h.row == row for h in live)
            never = Hypothesis(row).followed_by(self.config.eos_id, -np.inf)
            ended += [never] * max(0, empty // V)
        return ended, open_, parents


@defect("M6.2")
class width_counts_the_batch(ReferenceGenerator):
    """The W best of the whole batch live on, not the W best of each row."""

    def extend(self, live: list[Hypothesis], logs: Array, width: int) -> Extended:
        ended, open_, parents = super().extend(live, logs, width)
        rows = {h.row for h in open_}
        order = sorted(range(len(open_)), key=lambda i: -open_[i].log_probability)
        first = {row: next(i for i in order if open_[i].row == row) for row in rows}
        kept = sorted({*first.values(), *order[:width]})
        return ended, [open_[i] for i in kept], [parents[i] for i in kept]


@defect("M6.2c")
class empty_results_repeat_the_best(ReferenceGenerator):
    """Where fewer outputs exist than were asked for, the best one fills the places."""

    def packed(
        self, results: list[list[tuple[Hypothesis, float]]], chosen: dict[str, Any]
    ) -> dict[str, Array]:
        K = chosen["num_results"]
        return super().packed([(row + K * row[:1])[:K] for row in results], chosen)


@defect("M6.2")
class five_wide_by_default(ReferenceGenerator):
    """Without a width five hypotheses are followed."""

    def defaults(self) -> dict[str, Any]:
        return {**super().defaults(), "width": 5}


@defect("M6.8", "M6.2a")
class penalty_inverted(Ranking):
    """The log-probability is multiplied by the length penalty."""

    def score(self, log_probability: float, length: int, alpha: float) -> float:
        return log_probability * self.length_penalty(length, alpha)


@defect("M6.8", "M6.2a")
class penalty_ignored(Ranking):
    """alpha has no effect."""

    def length_penalty(self, length: int, alpha: float) -> float:
        return 1.0


@defect("M6.8", "M6.2")
class penalty_is_plain_length(Ranking):
    """Divided by n^alpha, without the 5 and the 6."""

    def length_penalty(self, length: int, alpha: float) -> float:
        return float(length**alpha)


@defect("M6.8")
class penalty_counts_bos(Ranking):
    """n counts the start token too."""

    def length_penalty(self, length: int, alpha: float) -> float:
        return super().length_penalty(length + 1, alpha)


@defect("M6.8")
class negative_alpha_ignored(Ranking):
    """An alpha below 0 is taken for 0."""

    def length_penalty(self, length: int, alpha: float) -> float:
        return super().length_penalty(length, max(alpha, 0.0))


@defect("M6.8", "M6.2")
class alpha_one_by_default(ReferenceGenerator):
    """Without an alpha the length counts fully."""

    def defaults(self) -> dict[str, Any]:
        return {**super().defaults(), "alpha": 1.0}
