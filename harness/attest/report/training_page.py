"""The page of one training: curves of loss, perplexity and what is right, and a few answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attest.report.pictures import pictures
from attest.report.svg import element

STYLE = Path(__file__).parent / "templates" / "report.css"


def training_page(title: str, sentences: Sequence[str], data: Mapping[str, Any]) -> str:
    """`data` has curves and samples as a record has them; everything else is escaped text."""
    head = Markup(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><style>{}</style>'
    ).format(Markup(STYLE.read_text(encoding="utf-8")))
    body = [
        element("header", element("p", "Training", class_="over"), element("h1", title)),
        element("main", *(element("p", said) for said in sentences), *pictures(data)),
    ]
    page = element("html", element("head", head, element("title", title)), element("body", *body), lang="en")
    return f"<!doctype html>\n{page}\n"
