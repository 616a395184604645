"""M10: the reference's layers and optimisers against torch's, and what happens without the operations."""

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.checks.differences import numerical
from attest.contract import Config
from attest.evidence import collecting
from attest.milestones.m10_first_principles.cases.updates import UpdateCase
from attest.milestones.m10_first_principles.properties.updates import followed
from attest.outcomes import Violation
from attest.reference.assembly import Parts
from attest.reference.implementation import ReferenceImplementation
from attest.reference.training.updates import UPDATES, AdamW, Memory
from attest_impls.numpy_scratch import NumpyScratch

torch = pytest.importorskip("torch")
CASE = UpdateCase(dtype="float64", decay=0.1)
RULES = {
    "sgd": lambda p, c: torch.optim.SGD(p, lr=1.0),
    "momentum": lambda p, c: torch.optim.SGD(p, lr=1.0, momentum=c.momentum),
    "adam": lambda p, c: torch.optim.Adam(p, lr=1.0, betas=(c.beta1, c.beta2), eps=c.adam_eps),
    "adamw": lambda p, c: torch.optim.AdamW(
        [
            {"params": [q for q in p if q.ndim > 1]},
            {"params": [q for q in p if q.ndim < 2], "weight_decay": 0.0},
        ],
        lr=1.0,
        betas=(c.beta1, c.beta2),
        eps=c.adam_eps,
        weight_decay=c.weight_decay,
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_twenty_steps_of_the_reference_are_those_of_torch(name):
    values, memory = CASE.parameters(), Memory()
    tensors = {n: torch.nn.Parameter(torch.tensor(x)) for n, x in values.items()}
    theirs, rule = RULES[name](list(tensors.values()), CASE.config), UPDATES[name](Parts(CASE.config))
    for step, rate in enumerate(CASE.rates):
        gradients = CASE.gradients(step)
        values = rule.step(values, memory, gradients, rate)
        for n, p in tensors.items():
            p.grad = torch.tensor(gradients[n])
        for group in theirs.param_groups:
            group["lr"] = rate
        theirs.step()
    for n, value in values.items():
        np.testing.assert_allclose(value, tensors[n].detach(), rtol=1e-12, atol=1e-14, err_msg=n)


def test_a_wrong_decay_is_named_with_the_array_and_the_step():
    class Coupled(AdamW):
        def decays(self, name, value):
            return True

    with collecting(), pytest.raises(Violation, match=r"inner.bias after step 1 of adamw"):
        followed(JudgedImplementation(ReferenceImplementation(Coupled)), "adamw", CASE)


def test_central_differences_of_a_cubic_are_exact():
    x = np.array([0.5, -2.0, 1.5])
    found = numerical(lambda a: float((a**3).sum()), x, "float64")
    np.testing.assert_allclose(found, 3 * x**2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("operation", "changes", "message"),
    [
        ("linear", {"d_ff": 0}, "d_ff=0 is not a positive integer"),
        ("activation", {"activation": "tanh"}, "activation='tanh' is unknown; choose one of relu"),
        ("momentum", {"momentum": 1.0}, r"momentum=1.0 is outside \[0, 1\)"),
        ("adam", {"beta2": 1.0}, r"beta2=1.0 is outside \[0, 1\)"),
        ("adam", {"adam_eps": 0.0}, "adam_eps=0.0 is not a positive number"),
        ("adamw", {"weight_decay": -1.0}, "weight_decay=-1.0 is not 0 or more"),
    ],
)
def test_numpy_scratch_refuses_configs_that_make_no_sense(operation, changes, message):
    with pytest.raises(ValueError, match=message):
        getattr(NumpyScratch(), operation)(Config(**changes))


@pytest.mark.parametrize("name", ["xavier", "he"])
def test_initialisations_refuse_sizes_that_make_no_sense(name):
    with pytest.raises(ValueError, match="inputs=0 is not a positive integer; give 1 or more"):
        getattr(NumpyScratch(), name)(3, 0, 1)


def test_gradients_of_another_set_of_names_are_refused():
    optimizer = NumpyScratch().sgd(Config())
    optimizer.load({"a": np.ones(2)})
    with pytest.raises(ValueError, match="name='a' is missing; give every parameter"):
        optimizer.step({"b": np.ones(2)}, 0.1)
