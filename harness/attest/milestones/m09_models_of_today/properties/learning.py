"""M9: a language model learns a source of known entropy, and ten sequences by heart."""

from __future__ import annotations

import math

import numpy as np

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer, finite_number
from attest.checks.arrays import expect
from attest.contract import DECODER_ONLY, Config
from attest.evidence import current, note_case
from attest.judging.property import verifies
from attest.trained.entropy import LABELS, TRAINING, EntropySource
from attest.trained.tasks import Batch

STEPS, LOOK_EVERY, LOOKS_AFTER = 600, 25, 2
HELD_OUT = 256
NEAR = 0.05  # nats of a label
# For any probabilities q that do not see what they predict, q / p of the true p has the mean 1, so that by
# Markov's inequality log(q / p) summed over all labels exceeds ln 1e9 with probability 1e-9 at most.
CHANCE = math.log(1e9)
BY_HEART, TEN = 400, 10
KNOWN = 6  # tokens of a sequence that its continuation is asked for


def config_for(impl: JudgedImplementation) -> Config:
    """The config of training with options that the implementation claims."""
    return impl.claims.nearest(DECODER_ONLY.operation, TRAINING.but(dtype=impl.dtypes[0]))


def evaluated(trainer: JudgedTrainer, batch: Batch) -> float:
    """The loss of a label."""
    return finite_number(trainer.evaluate([batch])["loss"], "the evaluated loss")


@verifies("M9.28", trains=True, costly=True, first=True)
def it_learns_the_entropy_of_its_source(impl: JudgedImplementation) -> None:
    """The held-out loss comes within 0.05 of that of the source, and never lower by more than chance."""
    source = EntropySource()
    held_out = source.held_out(HELD_OUT)
    ideal, batch = source.ideal_loss(held_out), source.batch(held_out)
    note_case(f"8 symbols, entropy rate {source.entropy_rate:.4f}, d_model 32, 2 layers, batch 64", "entropy")
    trainer = JudgedTrainer(impl, config_for(impl), architecture=DECODER_ONLY)
    looks: list[tuple[int, float]] = []
    reached = 0
    for step, ids in zip(range(1, STEPS + 1), source.batches("train", 0)):
        trainer.step(ids)
        if step % LOOK_EVERY == 0:
            looks.append((step, evaluated(trainer, batch)))
            below = (ideal - looks[-1][1]) * LABELS * HELD_OUT
            expect(below <= CHANCE, f"after {step} steps the loss is {looks[-1][1]:.4f}, the source itself "
                   f"loses {ideal:.4f} there: the model sees what it should predict")  # fmt: skip
            reached += looks[-1][1] <= ideal + NEAR
        if reached > LOOKS_AFTER:
            break
    show(looks, ideal)
    lowest = min(loss for _, loss in looks)
    expect(
        reached > 0, f"the loss is {lowest:.3f} at best in {STEPS} steps, should be below {ideal + NEAR:.3f}"
    )


def show(looks: list[tuple[int, float]], ideal: float) -> None:
    """The curve of the perplexity, beside that of the source, for the report."""
    steps = [step for step, _ in looks]
    curves = current().data.setdefault("curves", {})
    for name, losses in (
        ("perplexity", [loss for _, loss in looks]),
        ("of the source", [ideal] * len(looks)),
    ):
        y = [float(f"{math.exp(loss):.5g}") for loss in losses]
        curves[f"entropy: {name}"] = {"x": steps, "y": y, "x_label": "step", "y_label": "perplexity"}


@verifies("M9.29", trains=True, costly=True)
def ten_sequences_are_learned_by_heart(impl: JudgedImplementation) -> None:
    """The loss on ten sequences comes within 0.05 of ln 10 a sequence, and prompts bring back the rest."""
    source = EntropySource()
    ten = source.held_out(TEN, "train")
    batch, least = source.batch(ten), math.log(TEN) / LABELS
    note_case(f"ten sequences of {LABELS} labels, d_model 32, 2 layers, at most {BY_HEART} steps", "by heart")
    config = config_for(impl)
    trainer = JudgedTrainer(impl, config, architecture=DECODER_ONLY)
    first = loss = evaluated(trainer, batch)
    for step in range(1, BY_HEART + 1):
        trainer.step(batch)
        if step % LOOK_EVERY == 0:
            loss = evaluated(trainer, batch)
            # On the same batch without dropout, a loss that has not moved at all never will.
            expect(
                loss != first, f"after {step} steps the loss on the same ten sequences is still {first:.4g}"
            )
            if loss <= least + NEAR:
                expect_recalled(impl, config, trainer, batch)
                return
    expect(False, f"after {BY_HEART} steps the loss is {loss:.3f}, should be below {least + NEAR:.3f}")


def expect_recalled(impl: JudgedImplementation, config: Config, trainer: JudgedTrainer, batch: Batch) -> None:
    """The rest of nine of ten sequences is written behind the beginning, where completion is offered."""
    if not impl.offers(DECODER_ONLY.generate):
        return
    writer = impl.build(DECODER_ONLY.generate, config)
    writer.load(trainer.parameters())
    ids = batch[DECODER_ONLY.written]
    asked = {"prompt": ids[:, :KNOWN], "max_len": ids.shape[1] - KNOWN, "method": "greedy"}
    tokens = writer(**asked)["tokens"][:, 0]
    wanted = ids[:, KNOWN:]
    right = int((tokens == wanted).all(axis=1).sum()) if tokens.shape == wanted.shape else 0
    current().data.setdefault("samples", []).extend(
        {"input": " ".join(map(str, a)), "output": " ".join(map(str, b)), "wanted": " ".join(map(str, c))}
        for a, b, c in zip(ids[:3, :KNOWN].tolist(), np.asarray(tokens)[:3].tolist(), wanted[:3].tolist())
    )
    expect(
        right >= TEN - 1, f"{right} of {TEN} learned sequences came back behind their first {KNOWN} tokens"
    )
