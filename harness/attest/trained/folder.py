"""A folder of texts in two classes, as somebody has it on disk: DIR/pos/*.txt and DIR/neg/*.txt.

One text in eight is held out by the hash of its words, so that a text that is there twice is on one side.
Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

from attest.trained.sentiment import CLASSES, is_held_out
from attest.trained.words import Example, Labelled, vocabulary_of, words_of

NAME = "texts"
FEWEST = 20  # texts of a class: of fewer, hardly one is held out
MOST_BYTES = 2**16  # of a text that are read
VOCABULARY, LONGEST = 10_000, 256
MOST_HELD_OUT = 2000  # more would take longer to read than to learn


def folder_of_texts(directory: Path) -> Labelled:
    """ValueError where the folder is not laid out so, or holds too few texts or no words."""
    if not directory.is_dir():
        raise ValueError(f"data={str(directory)!r} is no directory; give one with the folders pos and neg")
    found: list[Example] = []
    for label, name in enumerate(CLASSES):
        found += [(_read(path), label) for path in _texts(directory, name)]
    train = tuple(example for example in found if not is_held_out(example[0]))
    held_out = tuple(example for example in found if is_held_out(example[0]))
    if not held_out:
        raise ValueError(f"data={str(directory)!r} has no text to hold out; give more texts that differ")
    shown = held_out[:: -(-len(held_out) // MOST_HELD_OUT)]  # of both classes, as they follow each other
    return Labelled(NAME, CLASSES, vocabulary_of(train, VOCABULARY), train, shown, LONGEST)


def _texts(directory: Path, name: str) -> list[Path]:
    """The files of a class, in order."""
    folder = directory / name
    if not folder.is_dir():
        rule = f"lacks the folder {name}"
        raise ValueError(f"data={str(directory)!r} {rule}; put texts into pos/*.txt and neg/*.txt")
    files = sorted(path for path in folder.glob("*.txt") if path.is_file())
    if len(files) < FEWEST:
        raise ValueError(f"data={str(folder)!r} has {len(files)} files *.txt; give {FEWEST} or more")
    return files


def _read(path: Path) -> tuple[str, ...]:
    """The words of one text; a character that is cut in half at the end is left out."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise ValueError(f"data={str(path)!r} cannot be read ({error.strerror}); leave it out") from None
    try:
        words = words_of(text.decode("utf-8", errors="ignore" if len(text) == MOST_BYTES else "strict"))
    except UnicodeDecodeError:
        raise ValueError(f"data={str(path)!r} is not UTF-8 text; save it as UTF-8") from None
    if not words:
        raise ValueError(f"data={str(path)!r} has no words; leave it out")
    return words
