"""An implementation that learns by counting: its trainer counts steps, its model knows the answer."""

import os
from pathlib import Path

import numpy as np

KNOWS_AFTER = 75


class Model:
    def __init__(self, task="reverse"):
        self.weight = np.zeros((2, 3), np.float32)
        self.task = task

    def __call__(self, *, source, target):
        logits = np.zeros((*target.shape, 13), np.float32)
        for row, ids in enumerate(source):
            real = ids[ids != 0]
            answer = [*(real[::-1] if self.task == "reverse" else real), 2]
            for place, token in enumerate(answer[: target.shape[1]]):
                logits[row, place, token] = self.weight[0, 0]
        return {"logits": logits}

    def parameters(self):
        return {"weight": self.weight.copy()}

    def load(self, parameters):
        self.weight = np.array(parameters["weight"])

    def eval(self):
        pass


class Trainer:
    def __init__(self, config, log):
        self.model, self.steps = Model(), 0
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def step(self, batch):
        self.steps += 1
        self.model.weight += 1
        return {"loss": 2.0 / self.steps, "rate": 1e-3 * self.steps, "norm": 1.0}

    def save(self, directory):
        Path(directory, "own.txt").write_text(f"{self.steps}\n")

    def evaluate(self, batches):
        return {"loss": 0.01 if self.steps >= KNOWS_AFTER else 1.0, "perplexity": 1.0}


class QuickLearner:
    name = "quick_learner"

    def __init__(self, log):
        self.log = log

    def transformer(self, config):
        return Model()

    def trainer(self, config):
        return Trainer(config, self.log)


class Explodes(QuickLearner):
    """Its loss is NaN from the tenth step."""

    name = "explodes"

    def trainer(self, config):
        trainer = super().trainer(config)
        step = trainer.step
        trainer.step = lambda batch: step(batch) | ({"loss": float("nan")} if trainer.steps >= 10 else {})
        return trainer
