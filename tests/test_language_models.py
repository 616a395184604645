"""Language models: their size, the source of known entropy, and completion from the command line."""

import math

import numpy as np
import pytest
from click.testing import CliRunner

from attest.cli import cli
from attest.contract import DECODER_ONLY, Config
from attest.contract.parameters import shapes
from attest.trained.entropy import CHAIN, LABELS, REPEATED, SYMBOLS, EntropySource


def test_the_model_of_2019_has_124439808_parameters():
    config = Config(
        d_model=768,
        num_heads=12,
        d_ff=3072,
        num_decoder_layers=12,
        target_vocab=50257,
        max_len=1024,
        positions="learned",
        norm="pre",
        tie=True,
        head_bias=False,
    )
    sizes = {name: math.prod(shape) for name, shape in shapes("language_model", config).items()}
    assert sum(sizes.values()) == 124_439_808
    embeddings = sum(size for name, size in sizes.items() if "embedding" in name)
    assert sum(sizes.values()) - embeddings == 85_056_000


def test_the_entropy_rate_is_what_the_source_loses_on_many_sequences():
    source = EntropySource()
    lost = source.ideal_loss(source.held_out(20_000, "train"))
    # The loss of a sequence has a spread of about 3 nats over 24 labels: 0.001 for 20,000 of them.
    assert lost == pytest.approx(source.entropy_rate, abs=0.005)
    assert 0 < source.entropy_rate < math.log(SYMBOLS)


def test_a_sequence_repeats_its_beginning_and_no_split_has_one_of_another():
    source = EntropySource()
    found = {split: set(source.held_out(300, split)) for split in ("train", "validation", "test")}
    for ids in found["train"]:
        assert len(ids) == CHAIN + REPEATED == LABELS - 1
        assert ids[CHAIN:] == ids[:REPEATED]
    assert not found["train"] & found["validation"]
    assert not found["train"] & found["test"]
    assert not found["validation"] & found["test"]


def test_batches_repeat_with_their_seed():
    source = EntropySource()
    one, same, other = (next(source.batches("train", seed)) for seed in (0, 0, 1))
    written = DECODER_ONLY.written
    assert one[written].shape == (64, LABELS + 1)
    assert np.array_equal(one[written], same[written])
    assert not np.array_equal(one[written], other[written])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("gpt")
    asked = ["train", "--impl", "eager", "--model", "gpt", "--task", "entropy", "--steps", "30"]
    result = CliRunner().invoke(cli, [*asked, "--out", str(directory)])
    assert result.exit_code == 1, result.output  # 30 steps are not enough
    assert "entropy: loss" in result.output
    return directory


def test_a_prompt_is_completed_with_new_tokens_alone(checkpoint):
    asked = ["complete", "--checkpoint", str(checkpoint), "3 1 4", "--max-new-tokens", "5"]
    asked += ["--temperature", "0.8", "--top-k", "3", "--seed", "1"]
    result = CliRunner().invoke(cli, asked)
    assert result.exit_code == 0, result.output
    line = result.output.splitlines()[0]
    assert line.startswith("3 1 4 |")
    assert len(line.partition("|")[2].split()) <= 5
    assert CliRunner().invoke(cli, asked).output == result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["9"], "symbol='9' is unknown; write digits from 0 to 7"),
        (["3 1", "--max-new-tokens", "0"], "max-new-tokens"),
        (["3 1", "--top-k", "0"], "'--top-k': 0 is not in the range"),
        (["3 1", "--temperature", "-1"], "'--temperature': -1.0 is not in the range"),
        (["3 1", "--top-p", "1.5"], "'--top-p': 1.5 is not in the range"),
    ],
)
def test_a_completion_that_makes_no_sense_is_refused(checkpoint, words, message):
    result = CliRunner().invoke(cli, ["complete", "--checkpoint", str(checkpoint), *words])
    assert result.exit_code == 2
    assert message in result.output


def test_a_text_file_is_learned_by_its_characters(tmp_path):
    text = tmp_path / "song.txt"
    text.write_text("row row row your boat gently down the stream\n" * 20)
    out = tmp_path / "model"
    asked = [
        "train",
        "--impl",
        "eager",
        "--model",
        "gpt",
        "--task",
        str(text),
        "--steps",
        "20",
        "--out",
        str(out),
    ]
    result = CliRunner().invoke(cli, asked)
    assert result.exit_code == 0, result.output
    assert "characters" in result.output
    done = CliRunner().invoke(cli, ["complete", "--checkpoint", str(out), "row ", "--max-new-tokens", "8"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("row |")
    refused = CliRunner().invoke(cli, ["complete", "--checkpoint", str(out), "ROW"])
    assert "character='R' is unknown" in refused.output


def test_the_study_of_positions_reports_every_seed(tmp_path):
    from attest.boundary import JudgedImplementation
    from attest.studies.norm import write_study
    from attest.studies.positions import draw_positions, markdown, positions_study, table
    from attest_impls.eager import attest_implementations

    impl = JudgedImplementation(attest_implementations()[0])
    study = positions_study(impl, seeds=(0, 1), steps=2)
    assert [(row["positions"], row["seed"]) for row in study["rows"]][:3] == [
        ("sinusoidal", 0),
        ("sinusoidal", 1),
        ("learned", 0),
    ]
    assert all(row["once"] > 0 for row in study["rows"]), "two steps cannot be better than the source"
    assert len(table(study)) == 7
    written = write_study(study, tmp_path, draw_positions, markdown)
    assert [path.suffix for path in written] == [".json", ".md", ".svg"]
    assert all(path.stem == "study_positions" and path.is_file() for path in written)
    page = written[1].read_text()
    assert page.count("\n| ") == 1 + 6, "a line for each kind"
    assert "a chain of 15 symbols over and over, 30 of them, 2 steps; seeds 0, 1." in page.replace(
        "A chain", "a chain"
    )
    assert "sinusoidal" in written[2].read_text()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--seeds", "0"], "0 is not in the range 1<=x<=100"),
        (["--steps", "-3"], "-3 is not in the range 1<=x<=100000"),
        (["--steps", "many"], "'many' is not a valid integer"),
    ],
)
def test_the_study_of_positions_refuses_what_makes_no_sense(options, fault):
    given = ["study", "positions", *([] if "--impl" in options else ["--impl", "eager"]), *options]
    done = CliRunner().invoke(cli, given)
    assert (done.exit_code, fault in done.output) == (2, True), done.output


def test_a_quick_study_of_positions_trains_each_kind_once(tmp_path, monkeypatch):
    import attest.studies.positions as positions

    asked = {}

    def study(impl, **chosen):
        asked.update(chosen)
        raise positions.NotOffered("nothing is trained here")

    monkeypatch.setattr(positions, "positions_study", study)
    done = CliRunner().invoke(cli, ["study", "positions", "--impl", "eager", "--quick", "--seed", "7"])
    assert done.exit_code == 2
    assert "eager cannot be studied: nothing is trained here" in done.output
    assert (list(asked["seeds"]), asked["steps"]) == ([7], 40)


def test_a_source_that_goes_on_repeats_its_chain():
    source = EntropySource(length=2 * CHAIN + 3, ends=False)
    ids = source.held_out(1)[0]
    assert ids[CHAIN : 2 * CHAIN] == ids[:CHAIN]
    assert source.batch([ids])["ids"].shape == (1, 2 * CHAIN + 4)
    whole = EntropySource(length=CHAIN, ends=False)
    assert source.entropy_rate * source.labels == pytest.approx(whole.entropy_rate * CHAIN)
