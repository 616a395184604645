"""The table of operations in the docstring of `attest.contract`, rendered from the records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from attest.contract.operation import OPERATIONS, Form, Kind, Operation, Port

NAME, TAKES, GIVES = 30, 44, 36  # widths of the columns
TIE = "\N{NO-BREAK SPACE}"
HEADS = ("operation", "called with (keywords)", "returns (mapping of arrays)")


def table() -> str:
    """One entry per operation: its inputs, its outputs and what there is to know about them."""
    lines = [_row(*HEADS), _row(*("-" * (width - 1) for width in (NAME, TAKES, GIVES)))]
    for record in OPERATIONS.values():
        lines += _entry(record)
    return "\n".join(lines)


def _entry(record: Operation) -> Iterator[str]:
    takes = textwrap.wrap(", ".join(_input(name, port) for name, port in record.takes.items()), TAKES - 1)
    gives = textwrap.wrap(_outputs(record), GIVES)
    name = f"{record.name}()" if record.form is Form.FUNCTION else record.name
    for i in range(max(len(takes), len(gives), 1)):
        cells = (name if i == 0 else "", *(column[i] if i < len(column) else "" for column in (takes, gives)))
        yield _row(*cells)


def _row(name: str, takes: str, gives: str) -> str:
    return f"{name:<{NAME}}{takes:<{TAKES}}{gives}".replace(TIE, " ").rstrip()


def _input(name: str, port: Port) -> str:
    mark = "?" if port.optional else ""
    shape = f"{TIE}{_shape(port.shape)}" if port.kind in (Kind.FLOATING, Kind.IDS) else ""
    return f"{name}{mark}{shape}"


def _outputs(record: Operation) -> str:
    always = [_output(name, shape) for name, shape in record.gives.items()]
    sometimes = [_output(f"{name}?", shape) for name, shape in record.may_give.items()]
    return "; ".join(filter(None, (", ".join([*always, *sometimes]), record.note)))


def _output(name: str, shape: str) -> str:
    return f"{name}{TIE}{_shape(shape)}"


def _shape(words: str) -> str:
    # a tie keeps a shape on one line
    return f"({TIE.join(f'{word},' for word in words.split())[:-1]})"
