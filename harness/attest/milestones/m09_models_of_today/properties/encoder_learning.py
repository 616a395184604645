"""M9: a masked language model learns a grammar, and a classifier learns what negation does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.checks.arrays import expect, expect_shape
from attest.contract import Architecture, Array, Config
from attest.evidence import current, note_case
from attest.judging.property import verifies
from attest.outcomes import NotClaimed
from attest.trained import grammar, sentiment
from attest.trained.tasks import PAD, Batch

GRAMMAR_STEPS, SENTIMENT_STEPS, LOOK_EVERY = 600, 300, 25
ENOUGH = 0.97  # training stops there: well above what is asked
MASKED_GOAL, SENTIMENT_GOAL = 0.9, 0.8
HELD_OUT, SHOWN = 256, 3
TELLING = ("alibi", "none")  # positions that do not tell before from behind where nothing is causal


def trainer_for(impl: JudgedImplementation, architecture: Architecture, config: Config) -> JudgedTrainer:
    """With options that the implementation claims, among them positions that tell the order."""
    config = impl.claims.nearest(architecture.operation, config.but(dtype=impl.dtypes[0]))
    if config.positions in TELLING:
        raise NotClaimed(
            f"positions={config.positions!r} do not tell before from behind; no order is learned"
        )
    return JudgedTrainer(impl, config, architecture=architecture)


def logits_of(trainer: JudgedTrainer, batch: Batch) -> Array:
    """In evaluation mode."""
    trainer.model.eval()
    return trainer.model(**trainer.architecture.inputs(batch))["logits"]


def shares(
    trainer: JudgedTrainer, batches: Iterator[Batch], share: Callable[[], float], steps: int
) -> list[tuple[int, float]]:
    """Train until enough is right or to the last step: steps and the share that is right there."""
    looks: list[tuple[int, float]] = []
    for step, batch in zip(range(1, steps + 1), batches):
        trainer.step(batch)
        if step % LOOK_EVERY == 0:
            looks.append((step, share()))
            if looks[-1][1] >= ENOUGH:
                break
    return looks


@verifies("M9.36", trains=True, costly=True)
def hidden_symbols_of_a_grammar_are_filled_in(impl: JudgedImplementation) -> None:
    """Nine of ten hidden symbols of held-out sentences are right, of which one side tells one in three."""
    source = grammar.Grammar()
    sentences = source.held_out(HELD_OUT)
    asked = source.asked(sentences)
    note_case(f"9 symbols, sentences of {grammar.LENGTH}, d_model 32, 2 layers, batch 64", "grammar")
    trainer = trainer_for(impl, source.architecture, grammar.TRAINING)

    def share() -> float:
        logits = logits_of(trainer, asked)
        expect_shape(logits, (*asked["labels"].shape, grammar.TRAINING.source_vocab), "logits")
        return grammar.accuracy(logits, asked)

    looks = shares(trainer, source.batches("train", 0), share, GRAMMAR_STEPS)
    show("hidden symbols", looks, "from one side", grammar.BY_CHANCE)
    current().data["samples"] = list(filled(asked, sentences, logits_of(trainer, asked)))
    best = max(right for _, right in looks)
    expect(best > MASKED_GOAL, f"at best {best:.1%} of the hidden symbols are right in {GRAMMAR_STEPS} "
           f"steps, should be above {MASKED_GOAL:.0%}; {grammar.BY_CHANCE:.0%} can be known from one side"
           )  # fmt: skip


def filled(asked: Batch, sentences: Sequence[tuple[int, ...]], logits: Array) -> Iterator[dict[str, str]]:
    """Sentences as they were asked, as they were filled in and as they should be."""
    said = np.where(asked["labels"] == PAD, asked["ids"], logits.argmax(-1))
    for hidden, written, wanted in list(zip(asked["ids"], said, sentences))[:SHOWN]:
        named = zip(("input", "output", "wanted"), (hidden, written, wanted))
        yield {name: grammar.words(ids) for name, ids in named}


@verifies("M9.37", trains=True, costly=True)
def negation_is_learned(impl: JudgedImplementation) -> None:
    """Four of five held-out sentences are classified; the commonest class is right about three of five."""
    task = sentiment.sentiment()
    if "right" not in impl.claims.padding:
        raise NotClaimed("sentences of several lengths are padded on the right")
    asked = task.batch(task.validation)
    note_case(f"{len(task.train)} sentences of up to 13 words, {len(task.validation)} held out, d_model 32, "
              "2 layers, batch 64", "sentiment")  # fmt: skip
    config = sentiment.TRAINING.but(source_vocab=task.size)
    trainer = trainer_for(impl, task.architecture, config)

    def said() -> Array:
        logits = logits_of(trainer, asked)
        expect_shape(logits, (len(task.validation), len(task.classes)), "logits")
        chosen: Array = logits.argmax(-1)
        return chosen

    looks = shares(
        trainer, task.batches(0), lambda: float((said() == asked["labels"]).mean()), SENTIMENT_STEPS
    )
    show("classified", looks, "always the commonest class", task.majority)
    current().data["samples"] = [
        {"input": " ".join(words), "output": task.classes[int(answer)], "wanted": task.classes[label]}
        for (words, label), answer in list(zip(task.validation, said()))[: 2 * SHOWN]
    ]
    best = max(right for _, right in looks)
    expect(best > SENTIMENT_GOAL, f"at best {best:.1%} of the held-out sentences are classified in "
           f"{SENTIMENT_STEPS} steps, should be above {SENTIMENT_GOAL:.0%}; always to say the commonest "
           f"class is right about {task.majority:.1%}")  # fmt: skip


def show(name: str, looks: list[tuple[int, float]], beside: str, level: float) -> None:
    """The curve of the share that is right, beside what is right without learning, for the report."""
    steps = [step for step, _ in looks]
    curves = current().data.setdefault("curves", {})
    for what, y in ((name, [right for _, right in looks]), (beside, [level] * len(looks))):
        shown = [float(f"{share:.4g}") for share in y]
        curves[what] = {"x": steps, "y": shown, "x_label": "step", "y_label": "share that is right"}
