"""A decoder-only model that exists for the tests alone: the encoder's layers under a causal mask.

Its cache is the tokens themselves: a step runs the whole model and returns the last logits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attest.contract import Architecture
from attest.contract.parameters import shapes
from attest.reference.formulas import Formulas
from attest.reference.generator import ReferenceGenerator
from attest.reference.tape import Var
from attest.reference.trainer import ReferenceOptimizer, ReferenceTrainer
from attest.reference.transformer import ReferenceModel

OPERATION = "toy_language_model"
TOY = Architecture(
    name="toy_decoder_only",
    operation=OPERATION,
    vocabularies=(("tokens", "target_vocab"),),
    prompt="tokens",
    written="tokens",
    classes="target_vocab",
    stack="encoder",
    depths=("num_encoder_layers",),
    sublayers=2,
    request="prompt",
    trainer="toy_trainer",
    optimizer="toy_optimizer",
    generate="toy_generate",
)
BUILDERS = (OPERATION, TOY.trainer, TOY.optimizer, TOY.generate)


def toy_shapes(config):
    """Those of a transformer without its decoder and its source."""
    named = shapes("transformer", config)
    return {n: s for n, s in named.items() if not n.startswith(("source_embedding", "decoder"))}


def language_model(formulas, tokens, p):
    """Logits (B, T, V)."""
    T = tokens.shape[1]
    mask = formulas.padding_mask(tokens, formulas.config.pad_id) & formulas.causal_allowed(T, T)
    x = formulas.input_embedding(tokens, p["target_embedding.weight"])
    return formulas.project(formulas.encoder(x, mask, p.at("encoder")), p)


@dataclass(frozen=True)
class ToyState:
    tokens: Any  # (B, t)


class ToyFormulas(Formulas):
    """The cache: nothing is kept but the tokens."""

    def start(self, prompt, p):
        return ToyState(np.zeros((len(prompt), 0), np.int64))

    def step(self, state, tokens, p):
        read = np.concatenate([state.tokens, tokens], axis=1)
        return Var(language_model(self, read, p).value[:, -tokens.shape[1] :]), ToyState(read)

    def reorder(self, state, rows):
        return ToyState(state.tokens[rows])


class ToyModel(ReferenceModel):
    architecture = TOY

    def start(self, rows):
        return ToyState(np.zeros((rows, 0), np.int64))


class ToyGenerator(ReferenceGenerator):
    architecture = TOY


class Toy:
    """A plugin that offers this architecture and nothing else; a test exchanges one class to break it."""

    name = "toy"
    dtypes = ("float32", "float64")

    def __init__(self, formulas=ToyFormulas, trainer=ReferenceTrainer, generator=ToyGenerator):
        self.formulas, self.trainer, self.generator = formulas, trainer, generator

    def toy_language_model(self, config):
        return ToyModel(self.formulas(config), OPERATION, config)

    def toy_trainer(self, config):
        return self.trainer(self.toy_language_model(config), config, TOY)

    def toy_optimizer(self, config):
        return ReferenceOptimizer(self.formulas(config), config, TOY)

    def toy_generate(self, config):
        return self.generator(self.formulas(config), TOY.generate, config)
