"""The map of the house names layers, files and functions that exist."""

import re
from pathlib import Path

from attest.judging.laws import LAWS
from test_imports import LAYERS

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "harness" / "attest"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = PAGE.split("## Layers")[1].split("```")[1]


def test_the_picture_has_every_layer_in_its_order():
    words = re.findall(r"[a-z_]+", PICTURE)
    places = [min(words.index(name) for name in layer) for layer in LAYERS]
    assert places == sorted(places)
    assert {name for layer in LAYERS for name in layer} <= set(words)


def test_every_file_that_is_named_exists():
    named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|toml|md)|[a-z_]+\.py)`", PAGE)
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, HARNESS))]
    assert len(named) > 25
    assert missing == []


def test_every_function_of_the_walk_exists():
    walk = PAGE.split("## One criterion")[1].split("## Where")[0]
    pairs = re.findall(r"`([a-z_/0-9]+\.py)` `([A-Za-z_.]+)`", walk)
    assert len(pairs) > 8
    for path, name in pairs:
        text = (HARNESS / path).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"(def|class) {part}\b", text), f"{path} has no {name}"


def test_the_criterion_of_the_example_is_where_the_page_says():
    found = PAGE.split("**M4.5**")[1].split("\n")[0]
    for path in re.findall(r"`((?:spec|harness)/[^`]+)`", found):
        assert '"M4.5"' in (ROOT / path).read_text(encoding="utf-8")


def test_the_example_is_code_that_exists():
    added = PAGE.split("```diff")[1].split("```")[0]
    path, missing = None, []
    for line in added.strip().splitlines():
        if line.startswith("--- "):
            path = ROOT / line.removeprefix("--- ")
        elif line[1:].strip() and "..." not in line and line[1:] not in path.read_text(encoding="utf-8"):
            missing.append(line)
    assert missing == []


def test_the_example_of_a_variant_names_files_that_mention_it():
    steps = PAGE.split("by the example of the sliding window")[1].split("Another score")[0]
    files = re.findall(r"\| `([a-z_/]+\.py)` \|", steps)
    assert len(files) == 4
    for name in files:
        assert "window" in (HARNESS / name).read_text(encoding="utf-8"), f"{name} does not mention window"


def test_the_glossary_lists_every_law():
    meaning = next(line for line in PAGE.splitlines() if line.startswith("| law |")).split("|")[2]
    listed = [name.strip().replace(" ", "_") for name in meaning.split(":")[1].split(",")]
    assert listed == [law.name for law in LAWS]
