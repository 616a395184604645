"""A decoder-only model that exists for the tests alone: the encoder's layers under a causal mask.

Its cache is the tokens themselves: a step runs the whole model and returns the last logits.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attest.contract import OPERATIONS, Architecture
from attest.contract.operation import Operation, ids
from attest.contract.parameters import transformer
from attest.reference.assembly import Parts
from attest.reference.decoding.cache import Cache
from attest.reference.decoding.generator import ReferenceGenerator
from attest.reference.models.transformer import ReferenceModel
from attest.reference.parts.where import Where
from attest.reference.tape import Var
from attest.reference.training.trainer import ReferenceOptimizer, ReferenceTrainer

OPERATION = "toy_language_model"
TOY = Architecture(
    name="toy_decoder_only",
    operation=OPERATION,
    prompt="tokens",
    written="tokens",
    stack="encoder",
    depths=("num_encoder_layers",),
    sublayers=2,
    request="prompt",
    trainer="toy_trainer",
    optimizer="toy_optimizer",
    generate="toy_generate",
)
TOKENS = ids("B T", "target_vocab", some=True)


def toy_shapes(config):
    """Those of a transformer without its decoder and its source."""
    return {n: s for n, s in transformer(config).items() if not n.startswith(("source_embedding", "decoder"))}


def language_model(parts, p, inputs):
    """Logits (B, T, V)."""
    tokens = inputs["tokens"]
    where = Where(parts.masks.padding_mask(tokens, parts.config.pad_id), causal=True, place="encoder")
    x = parts.embedding(tokens, p["target_embedding.weight"], where)
    return {"logits": parts.logits(parts.layers.encoder(x, p.at("encoder"), where), p)}


def records() -> list[Operation]:
    """Those of the encoder-decoder under other names, with one stream."""
    model = replace(
        OPERATIONS["transformer"],
        name=OPERATION,
        takes={"tokens": TOKENS},
        methods={},
        streams=("tokens",),
        parameters=toy_shapes,
        formula=language_model,
    )
    settings = {n: port for n, port in OPERATIONS["generate"].takes.items() if n != "source"}
    return [
        model,
        replace(OPERATIONS["trainer"], name=TOY.trainer, parameters=toy_shapes),
        replace(OPERATIONS["optimizer"], name=TOY.optimizer, parameters=toy_shapes),
        replace(
            OPERATIONS["generate"],
            name=TOY.generate,
            takes={"prompt": TOKENS, **settings},
            parameters=toy_shapes,
        ),
    ]


@dataclass(frozen=True)
class ToyState:
    tokens: Any  # (B, t)


class ToyCache(Cache):
    """Nothing is kept but the tokens."""

    def start(self, prompt, p):
        return ToyState(np.zeros((len(prompt), 0), np.int64))

    def step(self, state, tokens, p):
        read = np.concatenate([state.tokens, tokens], axis=1)
        logits = language_model(self.parts, p, {"tokens": read})["logits"]
        return Var(logits.value[:, -tokens.shape[1] :]), ToyState(read)

    def reorder(self, state, rows):
        return ToyState(state.tokens[rows])


class ToyModel(ReferenceModel):
    architecture = TOY

    def start(self, rows):
        return ToyState(np.zeros((rows, 0), np.int64))


class ToyGenerator(ReferenceGenerator):
    architecture = TOY


class Toy:
    """A plugin that offers this architecture and nothing else; a test exchanges one piece to break it."""

    name = "toy"
    dtypes = ("float32", "float64")

    def __init__(self, *pieces, cache=ToyCache, trainer=ReferenceTrainer, generator=ToyGenerator):
        self.pieces = (cache, *pieces)
        self.trainer, self.generator = trainer, generator

    def parts(self, config):
        return Parts(config, *self.pieces)

    def toy_language_model(self, config):
        return ToyModel(self.parts(config), OPERATION, config)

    def toy_trainer(self, config):
        return self.trainer(self.toy_language_model(config), config, TOY)

    def toy_optimizer(self, config):
        return ReferenceOptimizer(self.parts(config), config, TOY)

    def toy_generate(self, config):
        return self.generator(self.parts(config), TOY.generate, config)
