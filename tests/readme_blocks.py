"""The code and the commands that the README shows."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def files() -> dict[str, str]:
    """Python blocks by the file name in their first line."""
    return {text.split("\n", 1)[0].removeprefix("# "): text for text in blocks("python")}


def commands() -> list[str]:
    """Console lines without the prompt and the remark behind them."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [
        re.sub(r"\s+# .*", "", line.removeprefix("$ ")).strip() for line in lines if line.startswith("$ ")
    ]


def summary() -> list[str]:
    """What the README says the run of mine.py ends with."""
    text = README.partition("<!-- summary of mine.py -->\n```text\n")[2].partition("```")[0]
    return text.splitlines()
