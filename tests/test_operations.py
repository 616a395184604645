"""An operation is described once: everything else is derived from its record."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import attest.contract
from attest.boundary import JudgedImplementation
from attest.contract import OPERATIONS, Config, Form, Operation, operation_of, readers, register_operation
from attest.contract import operation as registry
from attest.contract.config import RULES, Holds
from attest.contract.manual import table
from attest.contract.operation import floats, ids
from attest.judging.inputs import inputs_of
from attest.reference import ops
from attest.reference.implementation import ReferenceImplementation
from attest.reference.oracle import expected, random_parameters
from attest.registry import UsageError, offered
from attest.spec import load_spec
from attest.spelling import config_from

HARNESS = Path(__file__).parents[1] / "harness" / "attest"
SLOTS = "reference/assembly.py"  # its table is of slots, and some have the name of the operation they compute
SIDES = {"encoder", "decoder"}  # also the two sides of a model, as in names of parameters
SMALL = Config(d_model=8, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1, max_len=16)


def doubled(parts, p, x):
    return {"output": ops.add(x["x"], p["shift"])}


def shifted_record(**changes) -> Operation:
    given = {
        "name": "shifted",
        "form": Form.COMPONENT,
        "milestone": "M99",
        "takes": {"x": floats("B T D")},
        "gives": {"output": "B T D"},
        "reads": frozenset({"d_model"}),
        "parameters": lambda config: {"shift": (config.d_model,)},
        "formula": doubled,
    }
    return Operation(**(given | changes))


@pytest.fixture
def shifted(monkeypatch) -> Operation:
    """An operation as a plugin brings it, gone after the test."""
    kept = dict(OPERATIONS)
    yield register_operation(shifted_record())
    registry._registered.clear()
    registry._registered.update(kept)


def test_the_manual_holds_the_table_of_the_records():
    assert table() in attest.contract.__doc__


def test_the_spec_and_the_records_agree_on_the_milestone_of_every_operation():
    """A later milestone may list operations of earlier ones, as that of compiled implementations does."""
    first: dict[str, str] = {}
    for milestone in load_spec().milestones:
        for name in milestone.operations:
            first.setdefault(name, milestone.id)
    assert first == {name: record.milestone for name, record in OPERATIONS.items()}


def tables_of_operations(path: Path) -> Iterator[str]:
    """Literals with two or more names of operations: dicts by their keys, tuples, lists and sets."""
    for node in ast.walk(ast.parse(path.read_text())):
        listed = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = [n.value for n in listed if isinstance(n, ast.Constant) and n.value in OPERATIONS]
        if len(names) >= 2 and set(names) != SIDES:
            yield f"{path.relative_to(HARNESS)}:{node.lineno} lists {', '.join(names)}"


def test_no_module_outside_the_contract_has_a_table_of_operations():
    found = [
        line
        for path in sorted(HARNESS.rglob("*.py"))
        if path.relative_to(HARNESS).parts[0] not in ("contract", "milestones")
        and str(path.relative_to(HARNESS)) != SLOTS
        for line in tables_of_operations(path)
    ]
    assert found == []


# A milestone may name the operations that it asks. A table by operation is one that a new operation can be
# missing from, so each has its reason here.
TABLES_OF_MILESTONES = {
    "milestones/compiled/properties/compiled.py": "inputs to refuse; the laws refuse for all",
    "milestones/m03_feed_forward_and_embeddings/cases/dropout.py": "biases of the paper's layers",
}


def test_a_milestone_has_no_table_by_operation_without_a_reason():
    found = {
        str(path.relative_to(HARNESS))
        for path in (HARNESS / "milestones").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict)
        and sum(isinstance(key, ast.Constant) and key.value in OPERATIONS for key in node.keys) >= 2
    }
    assert found == set(TABLES_OF_MILESTONES)


def test_readers_answers_which_operations_read_a_field():
    assert readers("label_smoothing")[:2] == ("loss", "trainer")
    assert readers("clip_norm")[:2] == ("clip_gradients", "trainer")
    assert readers("window") == ("self_attention", *readers("parallel"))
    assert "feed_forward" in readers("d_ff")
    assert "layer_norm" not in readers("num_heads")


def test_every_field_but_those_of_the_run_is_read_by_an_operation():
    unread = [name for name in RULES if not readers(name)]
    assert unread == ["dtype", "device", "seed", "options"]


def test_a_method_belongs_to_the_record_of_its_model():
    assert operation_of("decode").name == "transformer"
    assert operation_of("transformer").floating == {"memory"}


@pytest.mark.parametrize("name", [n for n, record in OPERATIONS.items() if record.computes])
def test_the_reference_computes_what_every_record_promises(name):
    record = OPERATIONS[name]
    parameters = random_parameters(name, SMALL, np.random.default_rng(0))
    inputs = inputs_of(record, SMALL, {"B": 2, "T": 3, "S": 4}, np.random.default_rng(1), masks=True)
    component = getattr(ReferenceImplementation(), name)(SMALL)
    if parameters:
        component.load(parameters)
    seen = component(**inputs)
    assert set(record.gives) <= set(seen) <= set(record.gives) | set(record.may_give)
    sizes = {
        "B": 2,
        "C": 2,
        "T": 3,
        "S": 4,
        "d": 12,
        "d_v": 5,
        "V": SMALL.target_vocab,
        "D": 8,
        "H": 2,
        "...": 2,
        "F": 16,
    }
    for output, shape in {**record.gives, **record.may_give}.items():
        if output in seen:
            assert seen[output].shape == tuple(sizes[word] for word in shape.split()), output


@pytest.mark.parametrize("name", [n for n, record in OPERATIONS.items() if record.computes])
def test_the_reference_refuses_what_a_port_does_not_allow(name):
    record = OPERATIONS[name]
    component = getattr(ReferenceImplementation(), name)(SMALL)
    good = inputs_of(record, SMALL, {"B": 2, "T": 3, "S": 4}, np.random.default_rng(1), masks=True)
    for port in good:
        with pytest.raises(ValueError, match=port):
            component(**{**good, port: good[port][..., None]})


def test_a_plugin_registers_an_operation_of_its_own(shifted):
    reference = ReferenceImplementation()
    assert "shifted" in offered(reference)
    parameters = random_parameters("shifted", SMALL, np.random.default_rng(0))
    assert parameters["shift"].shape == (8,)
    component = JudgedImplementation(reference).build("shifted", SMALL)
    component.load(parameters)
    x = np.ones((2, 3, 8), np.float32)
    wanted = expected("shifted", SMALL, parameters, {"x": x})["output"].value
    np.testing.assert_allclose(component(x=x)["output"], wanted, rtol=1e-6)
    with pytest.raises(ValueError, match=r"x=\(2, 3, 7\) must be \(batch, length, 8\)"):
        reference.shifted(SMALL)(x=x[..., :7])


def test_a_record_may_be_registered_twice_but_not_another_of_its_name(shifted):
    register_operation(shifted_record(parameters=lambda config: {}))
    with pytest.raises(ValueError, match="operation name='shifted' is taken by M99; choose another name"):
        register_operation(shifted_record(takes={"ids": ids("B T", "source_vocab")}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "not a name"}, "operation name='not a name' is not a Python name"),
        ({"reads": frozenset({"width"})}, "shifted reads 'width', which the config lacks"),
        ({"streams": ("memory",)}, "shifted has the stream 'memory', which it does not take"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        shifted_record(**changes)


def test_an_unknown_operation_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="operation='attend' is unknown; use one of attention, qkv"):
        operation_of("attend")


def test_a_config_is_typed_by_the_rule_of_each_field():
    config = config_from(["d_ff=24", "bias=no", "dropout=0.5", "norm=pre"])
    assert (config.d_ff, config.bias, config.dropout, config.norm) == (24, False, 0.5, "pre")
    assert config_from(["d_ff=none"]).d_ff is None
    with pytest.raises(UsageError, match="d_ff='wide' is not a whole number of at least 1; write"):
        config_from(["d_ff=wide"])


def test_every_default_is_allowed_by_its_rule():
    for name, rule in RULES.items():
        default = getattr(Config(), name)
        assert (default is None and rule.optional) or isinstance(default, rule.holds.type)
        assert not rule.choices or default in rule.choices
        assert (rule.holds is Holds.CHOICE) == bool(rule.choices)
