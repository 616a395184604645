"""How inputs are spoiled: bytes and words are changed, values get another kind, files are cut short."""

from __future__ import annotations

import json
import random

WORDS = (
    b"", b"null", b"-1", b"1e999", b"NaN", b'"', b"{", b"}", b"[", b"]", b",", b"\xff", b"\x00", b"../../x",
    b"[" * 2000, b"9" * 400, b"1", b"12", b"true", b'"M1.2"', b"\xed\xb3\xbf", b"=", b"\n", b"'", b":", b"/",
    b"__",
)  # fmt: skip
OTHER_KINDS = (None, True, 0, -1, 1.5, "", "../x", "M1.2", [], ["M1.2"], {}, [[]], {"a": 1})


def spoiled(rng: random.Random, text: bytes) -> bytes:
    """The text with some of its bytes, words or parts changed."""
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(text) + 1), rng.choice((0, 1, 2, 8, 64))
        text = text[:place] + rng.choice(WORDS) + text[place + length :]
    return text if rng.random() < 0.9 else text[: rng.randrange(len(text) + 1)]


def spoiled_word(rng: random.Random, text: bytes) -> str:
    """The same as a person's terminal would hand it over."""
    return spoiled(rng, text).decode("utf-8", "surrogateescape")


def spoiled_json(rng: random.Random, document: object) -> bytes:
    """A document spoiled as text, or with one of its values replaced by one of another kind."""
    text = json.dumps(document).encode()
    return spoiled(rng, text) if rng.random() < 0.5 else json.dumps(replaced(rng, document)).encode()


def replaced(rng: random.Random, document: object) -> object:
    """The document with one of its values replaced by one of another kind."""
    copy = json.loads(json.dumps(document))
    place = copy
    while isinstance(place, dict | list) and place:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.15:
            place[key] = rng.choice(OTHER_KINDS)
            break
        place = place[key]
    return copy
