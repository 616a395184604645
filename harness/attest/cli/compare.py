"""`attest compare`: where two implementations of a model part with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.adapters.checkpoints import Checkpoint


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--impl", "-i", required=True, metavar="IMPL",
              help="A registered name, file.py[:factory], hf:FAMILY or package.module:factory.")  # fmt: skip
@click.option("--against", metavar="IMPL", help="A second implementation, such as hf:llama.")
@click.option("--weights", required=True, type=click.Path(file_okay=False), metavar="DIR",
              help="A directory with config.json and safetensors, as transformers saves one.")  # fmt: skip
@click.option("--family", default="", metavar="NAME", help="[default: the model_type of config.json]")
@click.option("--ids", default="", metavar="IDS", help='Token ids, such as "3 1 4"; rows apart with commas.')
@click.option("--tokens", default=16, show_default=True, type=click.IntRange(1, 4096), metavar="N",
              help="Without --ids: so many random ids.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), metavar="SEED",
              help="Of the random ids.")  # fmt: skip
@click.option("--json", "as_json", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write every activation to FILE too.")  # fmt: skip
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write a page with a picture to FILE too.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, impl: str, against: str | None, weights: str, family: str, ids: str, tokens: int,
    seed: int, as_json: str | None, html: str | None,
) -> None:  # fmt: skip
    """Load the same weights into two implementations and say where the first one goes wrong.

    Every activation is judged against float64 within its bound, so that the answer names the implementation
    that is wrong. Exit code 1 when one is.
    """
    from attest.adapters.checkpoints import Checkpoint, CheckpointError
    from attest.contract.parameters import shapes
    from attest.diagnosis.compare import examine
    from attest.diagnosis.tracing import reference_trace
    from attest.registry import UsageError, printable, sentence
    from attest.report import activations as report
    from attest.report.writing import as_json as as_json_text
    from attest.report.writing import write_text

    try:
        checkpoint = Checkpoint(weights, family)
        inputs = _inputs(checkpoint, ids, tokens, seed)
        subjects = [_subject(text, checkpoint) for text in (impl, against) if text is not None]
        for option, name in (("--json", as_json), ("--html", html)):
            _check_file(option, name)
        _check_drawing(html)
    except (CheckpointError, UsageError) as error:
        raise click.UsageError(printable(str(error))) from None
    operation, config, parameters = checkpoint.family.operation, checkpoint.config, checkpoint.parameters
    size = f"{checkpoint.family.name}, {report.size_text(shapes(operation, config))}"
    click.echo(f"{weights}: {size}")
    try:
        trace = reference_trace(operation, config, parameters, inputs)
    except CheckpointError as error:
        raise click.UsageError(f"{weights}: {printable(str(error))}") from None
    except Exception as error:  # the implementations have not been asked yet
        raise click.UsageError(f"{weights}: the reference cannot compute it ({sentence(error)})") from None
    found = []
    for subject in subjects:
        build = getattr(subject, operation)
        try:
            found.append(examine(subject.name, build, operation, config, parameters, inputs, trace))
        except CheckpointError as error:
            raise click.UsageError(printable(str(error))) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever the implementation raises is its own, SystemExit too
            click.echo(f"{subject.name}: raised {sentence(error)}")
            ctx.exit(1)
    for findings in found:
        click.echo("\n" + "\n".join(report.lines(findings)))
    if as_json:
        write_text(Path(as_json), as_json_text(report.data(weights, found)))
    if html:
        write_text(Path(html), report.page(weights, size, found))
    ctx.exit(0 if all(f.right for f in found) else 1)


def _subject(text: str, checkpoint: Checkpoint) -> Any:
    from attest.registry import BrokenPlugin, UsageError, load, parse_request

    try:
        subject = load(parse_request(text))[0]
    except BrokenPlugin as error:
        raise UsageError(str(error)) from None
    if not callable(getattr(subject, checkpoint.family.operation, None)):
        raise UsageError(f"{subject.name} does not offer {checkpoint.family.operation}; offer it to compare")
    _check_family(subject, checkpoint)
    return subject


def _check_family(subject: Any, checkpoint: Checkpoint) -> None:
    """One of the families that it declares fixes nothing that is otherwise in this checkpoint."""
    from attest.contract.claims import claims_of
    from attest.families import family_named
    from attest.registry import UsageError

    config, named = checkpoint.config, claims_of(subject).families
    other = [[n for n, v in family_named(f).fixed.items() if getattr(config, n) != v] for f in named]
    if other and all(other):
        told = ", ".join(f"{name}={getattr(config, name)!r}" for name in min(other, key=len)[:3])
        raise UsageError(
            f"{subject.name} is of the family {', '.join(named)}, and these weights are of "
            f"{checkpoint.family.name} ({told}); name an implementation of it"
        )


def _inputs(checkpoint: Checkpoint, ids: str, tokens: int, seed: int) -> dict[str, Any]:
    import numpy as np

    from attest.contract.operation import Kind, operation_of
    from attest.registry import UsageError

    ports = {n: p for n, p in operation_of(checkpoint.family.operation).takes.items() if not p.optional}
    if not ids:
        rng = np.random.default_rng(seed)
        lengths = {name: (1, tokens) for name, port in ports.items() if port.kind is Kind.IDS}
        sizes = {name: int(getattr(checkpoint.config, ports[name].below)) for name in lengths}
        return {n: rng.integers(min(4, sizes[n] - 1), sizes[n], shape) for n, shape in lengths.items()}
    try:
        rows = np.array([[int(word) for word in row.split()] for row in ids.split(",")], dtype=np.int64)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--ids={ids!r} is no table of ids; write rows of one length, as in '3 1,4 1'"
        ) from None
    smallest = min(int(getattr(checkpoint.config, port.below)) for port in ports.values())
    if rows.ndim != 2 or not rows.size or (rows < 0).any() or (rows >= smallest).any():
        raise UsageError(f"--ids={ids!r} must be ids from 0 to {smallest - 1}; give one or more")
    return dict.fromkeys(ports, rows)


def _check_file(option: str, name: str | None) -> None:
    """Before anything is computed: a file that can be written and is not a plugin."""
    from attest.registry import UsageError

    if name is None:
        return
    path = Path(name)
    if name.endswith("/") or path.suffix == ".py" or not name or not path.parent.is_dir() or path.is_dir():
        raise UsageError(
            f"{option}={name!r} is not a file that can be written; name one in a directory there is"
        )


def _check_drawing(html: str | None) -> None:
    """Also before anything is computed: what the page needs."""
    from importlib.util import find_spec

    from attest.registry import UsageError

    if html is not None and (missing := [n for n in ("jinja2", "matplotlib") if find_spec(n) is None]):
        raise UsageError(
            f"--html needs {' and '.join(missing)}; install it with pip install 'attest-transformers[report]'"
        )
