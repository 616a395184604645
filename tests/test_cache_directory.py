"""Compiled graphs are kept where only their owner can write."""

import importlib.util
import os
import stat
from pathlib import Path

import pytest

# By its path: the package imports torch, which these rules do not need.
SOURCE = Path(__file__).parents[1] / "impls" / "attest_impls" / "compiled" / "cache_directory.py"
spec = importlib.util.spec_from_file_location("cache_directory", SOURCE)
cache_directory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache_directory)


def expected(parent: Path) -> Path:
    return parent / f"attest-inductor-{os.getuid()}"


def test_the_directory_is_the_users_own_and_stays_the_same(tmp_path):
    first, second = (cache_directory.private_directory(tmp_path) for _ in range(2))
    assert first == second == str(expected(tmp_path))
    assert stat.S_IMODE(os.stat(first).st_mode) == 0o700


def everyone_may_write(path):
    path.mkdir()
    path.chmod(0o777)


def a_link(path):
    elsewhere = path.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    path.symlink_to(elsewhere)


def a_file(path):
    path.write_text("")


def of_another_user(path):
    path.mkdir(mode=0o700)
    if os.getuid():
        pytest.skip("only root can give a directory away")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize("planted", [everyone_may_write, a_link, a_file, of_another_user])
def test_what_somebody_planted_is_not_used(tmp_path, planted):
    planted(expected(tmp_path))
    found = Path(cache_directory.private_directory(tmp_path))
    assert found != expected(tmp_path)
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert found.stat().st_uid == os.getuid()
    assert list(found.iterdir()) == []
