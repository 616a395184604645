"""What several test files use."""

import sys

import pytest

from attest import cli


@pytest.fixture
def attest(capfd, monkeypatch, tmp_path):
    """Call the command in this process from an empty directory: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str):
        monkeypatch.setattr(sys, "argv", ["attest", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfd.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call
