"""The questions of M5 and M6 put to another architecture: by a table, and able to fail there."""

from dataclasses import replace

import numpy as np
import pytest

from attest.boundary import JudgedImplementation
from attest.contract import ENCODER_DECODER, Config, operation
from attest.contract.architectures import GIVEN, architecture_named, known
from attest.evidence import collecting
from attest.judging.asking import asks, resolve
from attest.judging.cases import parse_value
from attest.judging.property import load_properties, run_property
from attest.milestones.m05_training.cases.training import TrainingCase
from attest.outcomes import Violation
from attest.reference.training.loss import Shift
from attest.reference.training.trainer import ReferenceTrainer
from attest.trained.tasks import Task
from toy_language_model import TOY, Toy, ToyCache, ToyGenerator, ToyState, records

TABLE = {
    "T.1": ("M5.6",),
    "T.2": ("M6.3",),
    "T.3": ("greedy_takes_the_likeliest_token",),
    "T.4": ("the_longest_target_has_one_column_more_than_max_len", "evaluation_leaves_the_mode"),
}


@pytest.fixture
def asked(monkeypatch):
    """The properties of the table, by criterion; the harness knows the toy's operation meanwhile."""
    for record in records():
        monkeypatch.setitem(operation._registered, record.name, record)
    registry, found = load_properties(), {}
    asks(TOY, TABLE)
    resolve(registry, lambda property: found.setdefault(property.criterion, []).append(property))
    return found


def judge(asked, criterion, implementation):
    for property in asked[criterion]:
        with collecting():
            run_property(property, JudgedImplementation(implementation), profile="quick", seed=0)


@pytest.mark.parametrize("criterion", TABLE)
def test_a_right_model_of_another_architecture_passes(asked, criterion):
    judge(asked, criterion, Toy())


class NotShifted(Shift):
    def __call__(self, target):
        return target[:, :-1], target[:, :-1]


class ForgetsThePast(ToyCache):
    def step(self, state, tokens, p):
        logits, _ = super().step(ToyState(state.tokens[:, :0]), tokens, p)
        return logits, ToyState(np.concatenate([state.tokens, tokens], axis=1))


class TakesTheLeastLikely(ToyGenerator):
    def choose(self, logits, live, draws, chosen):
        return [int(i) for i in logits.argmin(axis=-1)]


class StaysInEval(ReferenceTrainer):
    def evaluate(self, batches):
        found = super().evaluate(batches)
        self.model.eval()
        return found


@pytest.mark.parametrize(
    ("criterion", "broken", "seen"),
    [
        ("T.1", Toy(NotShifted), "the loss of step 1"),
        ("T.2", Toy(cache=ForgetsThePast), "the logits of a cached step"),
        ("T.3", Toy(generator=TakesTheLeastLikely), "has token"),
        ("T.4", Toy(trainer=StaysInEval), "logits in train mode after evaluate"),
    ],
)
def test_a_wrong_one_fails(asked, criterion, broken, seen):
    with pytest.raises(Violation, match=seen) as violation:
        judge(asked, criterion, broken)
    if criterion != "T.4":  # its cases are fixed, and noted in words
        assert "architecture=toy_decoder_only" in violation.value.case


def test_a_witness_of_another_architecture_fails_again(asked):
    wrong = Toy(generator=TakesTheLeastLikely)
    with pytest.raises(Violation) as violation:
        judge(asked, "T.3", wrong)
    (property,) = asked["T.3"]
    case = violation.value.case
    with collecting(), pytest.raises(Violation, match="has token"):
        run_property(property, JudgedImplementation(wrong), profile="quick", seed=0, witness=case)


def test_the_questions_of_the_encoder_decoder_stay_as_they_were(asked):
    (property,) = (p for p in load_properties()["M6.1"] if p.name == "greedy_takes_the_likeliest_token")
    assert property.criterion == "M6.1"
    assert asked["T.3"][0].check is property.check, "the question is the same function, not a copy"
    assert "T.3" not in load_properties()


def test_a_table_that_asks_what_is_not_there_is_refused():
    registry = load_properties()
    asks(TOY, {"T.9": ("M5.66",)})
    with pytest.raises(ValueError, match=r"T\.9 asks 'M5\.66', which is no criterion with properties"):
        resolve(registry, lambda property: None)
    with pytest.raises(TypeError, match=r"T\.9 asks 'M5\.6'; give a tuple"):
        asks(TOY, {"T.9": "M5.6"})


def test_a_case_prints_its_architecture_only_where_it_is_another():
    known(TOY)
    case = TrainingCase(steps=2)
    assert "architecture" not in str(case)
    other = case.of(TOY)
    assert "architecture=toy_decoder_only" in str(other)
    assert parse_value(str(other)) == other
    assert parse_value(str(case)) == case
    assert parse_value("training[steps=2]").architecture is ENCODER_DECODER
    with pytest.raises(ValueError, match="architecture='no_such' is unknown; one of "):
        parse_value("training[architecture=no_such]")


def test_what_an_architecture_reads():
    prompt, tokens, config = np.array([[5, 6]]), np.array([[7]]), Config()
    apart, first = ENCODER_DECODER.continued(prompt, tokens, config)
    assert first == 0
    assert {name: ids.tolist() for name, ids in apart.items()} == {"source": [[5, 6]], "target": [[1, 7]]}
    behind, first = TOY.continued(prompt, tokens, config)
    assert (first, behind["tokens"].tolist()) == (1, [[5, 6, 7]])
    assert ENCODER_DECODER.beginning(prompt) is prompt
    assert TOY.beginning(prompt) == 1
    batch = {"source": prompt, "target": np.array([[1, 7, 2]])}
    assert ENCODER_DECODER.inputs(batch)["target"].tolist() == [[1, 7]]
    assert (ENCODER_DECODER.prompt_keyword, TOY.prompt_keyword) == ("source", "prompt")


def test_labels_that_are_given_leave_the_streams_whole(asked):
    masked = replace(TOY, name="toy_masked", labels=GIVEN)
    batch = {"tokens": np.array([[5, 6, 7]]), "labels": np.array([[0, 6, 0]])}
    assert masked.inputs(batch)["tokens"].tolist() == [[5, 6, 7]]


def test_a_name_stands_for_one_architecture():
    assert architecture_named("encoder_decoder") is ENCODER_DECODER
    with pytest.raises(ValueError, match="architecture='encoder_decoder' is known with other fields"):
        known(replace(ENCODER_DECODER, sublayers=2))


def test_a_task_of_pairs_needs_a_stream_for_its_questions():
    with pytest.raises(ValueError, match="architecture=toy_decoder_only has no stream for the questions"):
        Task("copy", TOY)
