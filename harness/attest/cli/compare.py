"""`attest compare`: where two implementations of a model part with the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.adapters.checkpoints import Checkpoint
    from attest.diagnosis.compare import Findings


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
@click.pass_context
def command(
    ctx: click.Context, impl: str, against: str | None, weights: str, family: str, ids: str, tokens: int,
    seed: int, as_json: str | None,
) -> None:  # fmt: skip
    """Load the same weights into two implementations and say where the first one goes wrong.

    Every activation is judged against float64 within its bound, so that the answer names the implementation
    that is wrong. Exit code 1 when one is.
    """
    from attest.adapters.checkpoints import Checkpoint, CheckpointError
    from attest.diagnosis.compare import examine
    from attest.diagnosis.tracing import reference_trace
    from attest.registry import UsageError, printable, sentence

    try:
        checkpoint = Checkpoint(weights, family)
        inputs = _inputs(checkpoint, ids, tokens, seed)
        subjects = [_subject(text, checkpoint) for text in (impl, against) if text is not None]
        _check_json(as_json)
    except (CheckpointError, UsageError) as error:
        raise click.UsageError(printable(str(error))) from None
    operation, config, parameters = checkpoint.family.operation, checkpoint.config, checkpoint.parameters
    click.echo(f"{weights}: {checkpoint.family.name}, {_size(checkpoint)}")
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
        _tell(findings)
    if as_json:
        Path(as_json).write_text(json.dumps([_data(f) for f in found], indent=2) + "\n", encoding="utf-8")
    ctx.exit(0 if all(f.right for f in found) else 1)


def _subject(text: str, checkpoint: Checkpoint) -> Any:
    from attest.registry import BrokenPlugin, UsageError, load, parse_request

    try:
        subject = load(parse_request(text))[0]
    except BrokenPlugin as error:
        raise UsageError(str(error)) from None
    if not callable(getattr(subject, checkpoint.family.operation, None)):
        raise UsageError(f"{subject.name} does not offer {checkpoint.family.operation}; offer it to compare")
    return subject


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


def _check_json(name: str | None) -> None:
    """Before anything is computed: a file that can be written and is not a plugin."""
    from attest.registry import UsageError

    if name is None:
        return
    path = Path(name)
    if name.endswith("/") or path.suffix == ".py" or not name or not path.parent.is_dir() or path.is_dir():
        raise UsageError(
            f"--json={name!r} is not a file that can be written; name one in a directory there is"
        )


def _size(checkpoint: Checkpoint) -> str:
    import math

    from attest.contract.parameters import shapes

    count = sum(math.prod(s) for s in shapes(checkpoint.family.operation, checkpoint.config).values())
    return f"{count:,} parameters"


def _tell(findings: Findings) -> None:
    right = "right" if findings.right else "wrong"
    click.echo(f"\n{findings.implementation}: logits {right}, {_ratio(findings.logits)} of the bound")
    for layer, worst in _by_layer(findings).items():
        click.echo(f"  {layer:<28} {_ratio(worst):>10}")
    if findings.first_wrong:
        click.echo(f"  first wrong  {findings.first_wrong}")
        click.echo(f"  last right   {findings.last_good or 'nothing before it'}")
    for note in findings.notes:
        click.echo(f"  {note}")


def _by_layer(findings: Findings) -> dict[str, float]:
    """The worst activation of each layer."""
    worst: dict[str, float] = {}
    for activation in findings.activations:
        words = activation.name.split(".")
        layer = ".".join(words[:2]) if len(words) > 1 and words[1].isdigit() else words[0]
        worst[layer] = max(worst.get(layer, 0.0), activation.ratio)
    return worst


def _ratio(value: float) -> str:
    return f"{value:.3g}"


def _data(findings: Findings) -> dict[str, Any]:
    return {
        "implementation": findings.implementation,
        "right": findings.right,
        "logits": findings.logits,
        "way": findings.way,
        "first_wrong": findings.first_wrong,
        "last_good": findings.last_good,
        "notes": list(findings.notes),
        "activations": {a.name: a.ratio for a in findings.activations},
    }
