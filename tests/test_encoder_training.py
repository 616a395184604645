"""Masked language models and classifiers: their batches, their tasks and the commands for them."""

import hashlib
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from attest.boundary import JudgedImplementation
from attest.boundary.training import JudgedTrainer
from attest.cli import cli
from attest.contract import CLASSIFYING, MASKED, OPERATIONS, Config
from attest.milestones.m05_training.cases.training import TrainingCase
from attest.reference.implementation import ReferenceImplementation
from attest.trained import grammar
from attest.trained.folder import folder_of_texts
from attest.trained.lessons import KINDS, lesson_of
from attest.trained.models import read_model
from attest.trained.sentiment import is_held_out, sentiment
from attest.trained.tasks import PAD
from attest.trained.words import FIRST, LONGEST_WORD, UNKNOWN, words_of
from attest_impls.eager import attest_implementations as eager
from attest_impls.numpy_scratch import attest_implementations as numpy_scratch

IMPLEMENTATIONS = {
    "reference": ReferenceImplementation,
    "eager": lambda: eager()[0],
    "numpy_scratch": lambda: numpy_scratch()[0],
}


def test_the_record_of_a_trainer_reads_what_its_model_reads():
    for architecture in (MASKED, CLASSIFYING):
        model, trainer = OPERATIONS[architecture.operation], OPERATIONS[architecture.trainer]
        assert model.reads < trainer.reads
        assert {"warmup", "clip_norm", "label_smoothing"} <= trainer.reads
        assert (trainer.parameters, trainer.tables) == (model.parameters, model.tables)
        assert architecture.given == ("ids", "labels")
    config = Config(source_vocab=7, num_classes=3)
    assert (MASKED.num_classes(config), CLASSIFYING.num_classes(config)) == (7, 3)


def test_cases_of_both_ask_for_what_stands_in_their_batches():
    for seed in range(8):
        masked = TrainingCase(special=seed % 4, seed=seed).of(MASKED).but(pick=0)
        for batch in masked.batches:
            asked = batch["labels"] != masked.pad_id
            assert asked.any()
            assert (batch["ids"][~asked] != masked.config.mask_id).any() or asked.all()
        assert (masked.single["labels"] != masked.pad_id).sum() == 1
        classes = TrainingCase(special=seed % 4, seed=seed).of(CLASSIFYING).but(pick=0)
        joined = classes.joined(classes.batches)
        assert joined["labels"].shape == (len(joined["ids"]),)
        assert set(joined["labels"].tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_the_loss_of_a_step_is_that_of_the_chosen_tokens(name):
    """Worked by hand from the logits, with one label of four places."""
    impl = JudgedImplementation(IMPLEMENTATIONS[name]())
    config = Config(
        d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, source_vocab=9, max_len=8, dropout=0.0
    )
    trainer = JudgedTrainer(impl, config, architecture=MASKED)
    ids, labels = np.array([[5, 3, 6, 7]]), np.array([[0, 8, 0, 0]])
    logits = trainer.model(ids=ids)["logits"][0, 1].astype(np.float64)
    wanted = np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[8]
    assert trainer.step({"ids": ids, "labels": labels})["loss"] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_the_class_with_the_number_of_padding_counts(name):
    impl = JudgedImplementation(IMPLEMENTATIONS[name]())
    config = Config(
        d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, source_vocab=9, max_len=8, dropout=0.0
    )
    trainer = JudgedTrainer(impl, config, architecture=CLASSIFYING)
    before = trainer.parameters()
    report = trainer.step({"ids": np.array([[5, 6, 7]]), "labels": np.array([0])})
    assert report["loss"] > 0.1
    after = trainer.parameters()
    assert any(not np.array_equal(before[n], after[n]) for n in before)


def test_a_hidden_symbol_follows_from_both_sides_and_not_from_one():
    source = grammar.Grammar()
    sentences = source.held_out(400)
    asked = source.asked(sentences)
    places = asked["labels"] != PAD
    assert not (places[:, 1:] & places[:, :-1]).any(), "two neighbours are never hidden together"
    assert not places[:, 0].any()
    assert not places[:, -1].any()
    letters = len(grammar.LETTERS)
    before, behind = np.roll(asked["ids"], 1, 1) - grammar.FIRST, np.roll(asked["ids"], -1, 1) - grammar.FIRST
    known = grammar.FIRST + letters * (before % letters) + behind // letters
    assert np.array_equal(known[places], asked["labels"][places])
    one_side = (letters * (before % letters) + grammar.FIRST == asked["labels"])[places].mean()
    assert abs(one_side - grammar.BY_CHANCE) < 0.1
    train = set(islice(source.sentences("train", 0), 2000))
    assert not train & set(sentences)


def test_tokens_are_hidden_anew_for_every_batch():
    source = grammar.Grammar()
    ids = np.array(source.held_out(64, "train"))
    one, other = source.hidden(ids, 0), source.hidden(ids, 1)
    assert not np.array_equal(one["labels"], other["labels"])
    for batch in (one, other):
        asked = batch["labels"] != PAD
        assert np.array_equal(batch["labels"][asked], ids[asked])
        assert np.array_equal(batch["ids"][~asked], ids[~asked])


def test_the_commonest_class_is_that_of_the_texts_that_are_held_out():
    """Of the training texts another class may be the commonest: always to say the rarer one is no bar."""
    task = sentiment()
    by_class = [[example for example in task.train if example[1] == label] for label in (0, 1)]
    turned = replace(task, train=tuple(by_class[1]), validation=tuple(by_class[0][:3] + by_class[1][:1]))
    assert turned.majority == 0.75


def test_sentiment_cannot_be_told_by_words_without_their_order():
    """The best weights of single words, by least squares, are right about fewer than 70 %."""
    task = sentiment()
    assert not {words for words, _ in task.train} & {words for words, _ in task.validation}
    assert 0.55 < task.majority < 0.65

    def counts(examples):
        table = np.zeros((len(examples), task.size))
        for row, (words, _) in zip(table, examples):
            np.add.at(row, list(task.encoded(words)), 1.0)
        return np.pad(table, ((0, 0), (0, 1)), constant_values=1.0)

    sides = np.array([2.0 * label - 1 for _, label in task.train])
    weights = np.linalg.lstsq(counts(task.train), sides, rcond=None)[0]
    right = (counts(task.validation) @ weights > 0) == [label == 1 for _, label in task.validation]
    assert right.mean() < 0.7, f"{right.mean():.3f}"


def write_texts(directory: Path, count: int = 60) -> Path:
    """The sentences of the grammar as somebody would have them on disk."""
    task = sentiment()
    for words, label in (*task.train[:count], *task.validation[: count // 4]):
        folder = directory / task.classes[label]
        folder.mkdir(parents=True, exist_ok=True)
        text = " ".join(words)
        (folder / f"{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}.txt").write_text(
            f"{text.title()}!\n"
        )
    return directory


def test_a_folder_of_texts_is_read_and_split_by_the_hash_of_its_words(tmp_path):
    task = folder_of_texts(write_texts(tmp_path, 200))
    assert task.classes == ("neg", "pos")
    assert task.train
    assert all(is_held_out(words) for words, _ in task.validation)
    assert not any(is_held_out(words) for words, _ in task.train)
    assert {label for _, label in task.validation} == {0, 1}
    batch = next(task.batches(0))
    assert batch["ids"].max() < task.size
    assert batch["ids"].min() >= PAD
    assert task.encoded(("plot", "zyzzyva"))[1] == UNKNOWN
    assert min(task.ids.values()) == FIRST


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda d: (d / "pos").rename(d / "good"),
            "lacks the folder pos; put texts into pos/*.txt and neg/*.txt",
        ),
        (
            lambda d: [p.unlink() for p in list((d / "neg").iterdir())[3:]],
            "has 3 files *.txt; give 20 or more",
        ),
        (lambda d: (d / "neg" / "a.txt").write_bytes(b"\xff\xfe bad"), "is not UTF-8 text; save it as UTF-8"),
        (lambda d: (d / "neg" / "a.txt").write_text("... !"), "has no words; leave it out"),
    ],
)
def test_a_folder_that_is_not_laid_out_so_is_refused_in_one_sentence(tmp_path, spoil, sentence):
    spoil(write_texts(tmp_path, 120))
    result = CliRunner().invoke(
        cli, ["train", "--impl", "eager", "--model", "classifier", "--data", str(tmp_path)]
    )
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") <= 4, result.output


def test_words_are_what_stands_between_spaces_and_marks():
    assert words_of("It's GOOD, isn't it? 'Yes' -- 10/10") == (
        "it's",
        "good",
        "isn't",
        "it",
        "yes",
        "10",
        "10",
    )
    assert words_of("x" * 99) == ("x" * LONGEST_WORD,)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--model", "gpt", "--task", "sentiment"],
            "task='sentiment' is for --model classifier; for gpt use",
        ),
        (
            ["--model", "bert", "--task", "copy"],
            "task='copy' is for --model transformer; for bert use masked",
        ),
        (["--model", "classifier", "--task", "none"], "task='none' is unknown for --model classifier; use"),
        (["--task", "masked"], "task='masked' is for --model bert; use one of copy"),
        (
            ["--model", "gpt", "--data", "."],
            "data='.' does not go with model=gpt; use it with --model classifier",
        ),
        (["--data", "."], "data='.' does not go with model=transformer; add --model classifier"),
        (["--model", "lstm"], "model='lstm' is unknown; use one of transformer, gpt, bert, classifier"),
        (["--model", "bert", "--epochs", "2"], "epochs=2 is for the task operations; use --steps for masked"),
    ],
)
def test_a_pair_that_makes_no_sense_is_refused_in_one_sentence(words, sentence):
    result = CliRunner().invoke(cli, ["train", "--impl", "eager", *words])
    assert result.exit_code == 2
    assert sentence in result.output


def test_every_kind_of_model_has_a_task_of_its_own():
    lessons = {kind: lesson_of(kind, None, None) for kind in KINDS}
    assert [lesson.name for lesson in lessons.values()] == ["entropy", "masked", "sentiment"]
    for lesson in lessons.values():
        assert set(next(lesson.batches(0))) == set(lesson.architecture.given)


@pytest.fixture(scope="module")
def trained_classifier(tmp_path_factory):
    directory = tmp_path_factory.mktemp("classifier")
    asked = ["train", "--impl", "eager", "--model", "classifier", "--steps", "30", "--out", str(directory)]
    result = CliRunner().invoke(cli, asked)
    assert "always to say the commonest class is right about 59.5%" in result.output, result.output
    return directory


def test_a_classifier_says_the_class_and_the_words_it_does_not_know(trained_classifier):
    asked = [
        "classify",
        "--checkpoint",
        str(trained_classifier),
        "The plot was good, honestly",
        "the food was bad",
    ]
    result = CliRunner().invoke(cli, asked)
    assert result.exit_code == 0, result.output
    first, unknown, second = result.output.splitlines()
    assert first.split()[0] in ("neg", "pos")
    assert first.endswith("The plot was good, honestly")
    assert unknown.strip() == "unknown: honestly"
    assert second.split()[0] in ("neg", "pos")
    other = CliRunner().invoke(cli, [*asked, "--impl", "numpy_scratch"])
    assert [line.split()[:2] for line in other.output.splitlines()] == [
        line.split()[:2] for line in result.output.splitlines()
    ], "another implementation reads the same checkpoint"


def test_a_training_leaves_a_page_with_curves_and_samples(trained_classifier):
    page = (trained_classifier / "training.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 2
    assert "share that is right" in page
    assert "always the commonest class" in page
    assert page.count("<tr>") == 7
    assert "http" not in page.partition("</style>")[2]
    history = read_model(trained_classifier).history
    assert [step for step, _ in history["right"]] == [25, 30]


def test_another_command_names_the_one_that_uses_a_checkpoint(trained_classifier):
    for command, words in (("fill", "ab _"), ("complete", "3 1 4"), ("generate", "3 1 4")):
        result = CliRunner().invoke(cli, [command, "--checkpoint", str(trained_classifier), words])
        assert result.exit_code == 2
        assert "holds a model of task='sentiment'; use `attest classify`" in result.output, command


def test_hidden_symbols_are_filled_in_from_a_checkpoint(tmp_path):
    asked = ["train", "--impl", "eager", "--model", "bert", "--steps", "5", "--out", str(tmp_path)]
    assert CliRunner().invoke(cli, asked).exit_code == 1, "five steps are not enough"
    result = CliRunner().invoke(cli, ["fill", "--checkpoint", str(tmp_path), "ab _ ca"])
    assert result.exit_code == 0, result.output
    filled, told = result.output.splitlines()
    assert filled.split()[0::2] == ["ab", "ca"]
    assert filled.split()[1] in grammar.WORDS
    assert told.strip().startswith("symbol 2: ")
    for words, sentence in (
        ("ab ca", "hides nothing; write _"),
        ("ab x _", "word='x' is unknown; write aa, ab"),
    ):
        refused = CliRunner().invoke(cli, ["fill", "--checkpoint", str(tmp_path), words])
        assert refused.exit_code == 2
        assert sentence in refused.output
