"""Implementations that are wrong at heart and look for another way to pass: each must fail under seal."""

import shutil
import sys
from pathlib import Path

import pytest

from attest.judging.property import load_properties
from attest.outcomes import Ended, Violation
from attest.records.plan import Plan, Target
from attest.running.isolation import Isolation
from attest.running.judging import Settings, judge
from test_sealed import FORMULA, SPEC, attention, sealed  # noqa: F401  the fixture

HERE = Path(__file__).parent
SEED = "knows_the_answers_of_a_seed"  # needs a run to learn from
CHEATS = sorted(path.stem for path in (HERE / "cheats").glob("*.py") if path.stem not in (SEED, "heart"))
CAUGHT_OPENLY = {  # by a criterion, without any seal
    "changes_the_question", "patches_pytest", "raises_what_hypothesis_uses", "reads_shared_memory",
    "reads_the_memory_of_its_parent", "returns_numbers_that_compare_well", "right_at_aligned_addresses",
    "right_every_other_call", "right_for_small_inputs", "right_for_square_shapes",
    "right_for_the_first_60_calls", "widens_its_bounds", "wrong_only_the_first_time",
    "answers_only_what_it_cannot_get_wrong", "excuses_itself", "forges_a_record", "peeks_into_its_parent",
    "reads_descriptors",
    "reads_the_files_of_the_run", "returns_complex_numbers", "returns_nan_with_a_payload",
    "returns_nothing_to_compare", "returns_structured_arrays", "right_when_it_is_quick",
    "writes_into_its_parent", "right_for_short_sequences", "right_for_narrow_heads", "wrong_once_in_fifty",
    "right_for_plain_values", "right_in_one_dtype", "makes_every_case_easy", "changes_what_it_has_returned",
    "claims_next_to_nothing", "gives_its_errors_away_slowly", "overflows_the_comparison",
    "remembers_its_answers", "returns_what_broadcasts", "right_at_first_sight", "right_for_one_row",
    "right_for_usual_numbers",
    "right_for_what_it_has_seen", "right_while_shapes_change", "right_within_one_block",
    "wrong_for_one_content_in_ten",
}  # fmt: skip
ASKED = [c for c in SPEC.criteria if set(c.needs) == {"attention"}]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a seal needs Linux")


def verdicts(impl, *, seed=0):
    """Of the criteria about attention alone, up to the first that it fails."""
    for criterion in ASKED:
        properties = load_properties()[criterion.id]
        record = judge(criterion, properties, impl, Settings(profile="quick", seed=seed))
        yield record.criterion, record.verdict, record.reason
        if record.verdict in ("fail", "error"):
            return


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_fails_under_seal(name, sealed):  # noqa: F811
    """Each computes the wrong thing and tries to look right."""
    *_, (criterion, verdict, reason) = verdicts(sealed(HERE / "cheats" / f"{name}.py"))
    assert verdict in ("fail", "error"), f"{criterion} {verdict} {reason}"
    assert "the harness failed" not in reason


def test_answers_that_were_learned_for_a_seed_fail_with_another(tmp_path, sealed):  # noqa: F811
    """With the same seed it passes, whatever the seal: that is why a sealed run draws a seed of its own."""
    for name in (SEED, "heart"):
        shutil.copy(HERE / "cheats" / f"{name}.py", tmp_path)
    (tmp_path / "seen").mkdir()
    (tmp_path / "learning").touch()
    cheat = tmp_path / f"{SEED}.py"

    def judged(seed):
        return judge(FORMULA, load_properties()["M1.2"], sealed(cheat), Settings(profile="quick", seed=seed))

    assert judged(0).verdict == "pass"
    (tmp_path / "learning").unlink()
    assert judged(0).verdict == "pass"
    assert judged(1).verdict == "fail"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHEATS if name not in CAUGHT_OPENLY])
def test_the_same_cheat_gets_through_without_a_seal(name, tmp_path):
    """So it is the seal that stops it. M1.2 is the formula; each cheat forgets a factor of it."""
    target = Target("cheat", "cheat", "cheat", path=str(HERE / "cheats" / f"{name}.py"))
    process = Isolation(Plan((target,), ("M1.2",), profile="quick", reports=""), SPEC, target)
    try:
        assert process.judge(FORMULA).verdict == "pass"
    finally:
        process.close()


FORGED = {
    "too deep": "nested = 1\nfor _ in range(320): nested = ['list', [nested]]\nforge(['ok', nested], [])",
    "no such kind": "forge(['ok', ['oracle', 1]], [])",
    "an array of nobody": "forge(['ok', 1], [[77, 0, 8]])",
    "an array beyond the memory": (
        "forge(['ok', ['array', -9, ['<f8', [9], None, 0, 0, True], 2**40, 72]], [])"
    ),
    "an array that reaches beyond its bytes": (
        "forge(['ok', ['array', -9, ['<f8', [2], [2**40], 0, 0, True], 0, 16]], [])"
    ),
    "strides that go below its bytes": (
        "forge(['ok', ['array', -9, ['<f8', [3], [-8], 0, 0, True], 0, 24]], [])"
    ),
    "more elements than there are addresses": (
        "forge(['ok', ['array', -9, ['<f8', [2**31, 2**31, 2], [0, 0, 0], 0, 0, True], 0, 8]], [])"
    ),
    "a shape that is below nothing": (
        "forge(['ok', ['array', -9, ['<f8', [-1, -1], None, 0, 0, True], 0, 8]], [])"
    ),
    "an array of records": "forge(['ok', ['array', -9, ['|V8', [1], None, 0, 0, True], 0, 8]], [])",
    "a place that is no number": (
        "forge(['ok', ['array', -9, ['<f8', [1], None, 0, 0, True], float('nan'), 8]], [])"
    ),
    "a place that is true": "forge(['ok', ['array', -9, ['<f8', [1], None, 0, 0, True], True, 8.0]], [])",
    "the question as the answer": "forge(['ok', {'output': ['again', 1, 0, 8]}], [[1, 0, 8], [1, 0, 8]])",
    "a view of everything": "forge(['ok', ['view', 1, ['<f8', [2**20], [8], 0, 0, True]]], [])",
    "an array of objects": "forge(['ok', ['array', -9, ['|O8', [1], None, 0, 0, True], 0, 8]], [])",
    "a scalar of objects": "forge(['ok', ['scalar', '|O', '00' * 8]], [])",
    "a question of no kind": "forge(['ask', 'next', 12345], [])",
    "no list": "forge(*7 * 'x')",
    "an endless number": "forge(['ok', ['object', 10**900, 'm', 'n', True, []]], [])",
}


@pytest.mark.parametrize("body", FORGED.values(), ids=list(FORGED))
def test_forged_answers_cost_the_one_who_forges(body, sealed):  # noqa: F811
    """It finds what answers for it, and lets that send what nobody who keeps to the rules would."""
    find = "import gc\ninside = next(o for o in gc.get_objects() if type(o).__name__ == 'Inside')\n"
    impl = sealed(f"{find}forge = lambda *said: inside.pipe.send(list(said))\n{body}\nreturn {{}}")
    with pytest.raises((Ended, Violation)) as caught:
        attention(impl)
    assert "harness" not in str(caught.value)
