"""`attest flow`: the information-flow map of a component beside the one the spec requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attest.boundary import JudgedImplementation
    from attest.checks.flow import Flow


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("part", metavar="PART")
@click.option("--impl", "-i", required=True, metavar="IMPL",
              help="A registered name, file.py[:factory] or package.module:factory.")  # fmt: skip
@click.option("--norm", default="post", show_default=True, metavar="NORM", help="post or pre.")
@click.option("--padding", is_flag=True, help="Hide the end of some rows (not for the transformer).")
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1, 12), metavar="N",
              help="Layers in a stack.")  # fmt: skip
@click.option(
    "--seed",
    default=7,
    show_default=True,
    type=click.IntRange(0),
    metavar="SEED",
    help="Of inputs and weights.",
)
@click.pass_context
def command(
    ctx: click.Context, part: str, impl: str, norm: str, padding: bool, layers: int, seed: int
) -> None:
    """Print which outputs of PART depend on which inputs, found by perturbation and by gradient.

    PART is a layer, a stack or a model: encoder_layer, decoder, transformer, language_model, classifier and
    so on. Exit code 1 when the map is not the required one.
    """
    from attest.evidence import collecting
    from attest.outcomes import NotOffered, Violation
    from attest.registry import offered

    _check(part, norm, padding)
    wrong = False
    for judged in judged_implementations(impl):
        if not judged.offers(part):
            had = [name for name in offered(judged.implementation) if name in parts()]
            raise click.UsageError(
                f"{judged.name} does not offer {part}; it offers {', '.join(had) or 'none of these'}"
            )
        try:
            with collecting():
                found = maps(judged, part, norm=norm, padding=padding, layers=layers, seed=seed)
        except NotOffered as reason:
            raise click.UsageError(f"{judged.name}: {reason}") from None
        except Violation as violation:
            raise click.ClickException(f"{judged.name}: {violation.seen}") from None
        click.echo(f"{judged.name} {part}, norm {norm}")
        for flow in found:
            click.echo(f"\n{flow.text()}\n{flow.sentence() or 'as required'}")
            wrong |= not flow.agrees
    click.echo("\n# depends   . does not   ! leaks   o is missing   - unspecified")
    ctx.exit(1 if wrong else 0)


def _check(part: str, norm: str, padding: bool) -> None:
    from attest.spelling import nearest

    if part not in parts():
        raise click.UsageError(f"part={part!r} has no map; {nearest(part, parts())}")
    if norm not in ("post", "pre"):
        raise click.UsageError(f"norm={norm!r} is unknown; use one of post, pre")
    if padding and is_model(part):
        raise click.UsageError(f"--padding is for layers and stacks; a {part} makes its masks from the ids")


def parts() -> list[str]:
    """The operations whose records name the streams that a map follows."""
    from attest.contract import OPERATIONS

    return [name for name, record in OPERATIONS.items() if record.streams]


def is_model(part: str) -> bool:
    """Whether it reads ids."""
    from attest.contract import OPERATIONS, Form

    return OPERATIONS[part].form is Form.MODEL


def judged_implementations(impl: str) -> list[JudgedImplementation]:
    """The implementations that a request names, wrapped for judging."""
    from attest.boundary import JudgedImplementation
    from attest.registry import load, parse_request

    request = parse_request(impl)
    options = dict(request.options)
    return [
        JudgedImplementation(found, dtype=options.get("dtype"), device=options.get("device", "cpu"))
        for found in load(request)
    ]


def maps(
    judged: JudgedImplementation, part: str, *, norm: str, padding: bool, layers: int, seed: int
) -> list[Flow]:
    """By perturbation, and by gradient where that is offered and the inputs are not ids."""
    if is_model(part):
        return [_of_model(judged, part, norm, layers, seed)]
    if part == "causal_layer":
        return [_of_causal_layer(judged, norm, seed)]
    from attest.checks.flow import by_gradient, by_perturbation, flow, required_maps
    from attest.milestones.m04_layers.cases.layers import LayerCase
    from attest.milestones.m04_layers.checks import has_method

    mask = "padding" if padding else "none"
    case = LayerCase(part=part, norm=norm, mask=mask, memory_mask=mask, B=2, T=4, S=3, D=8, H=2, F=16)
    case = case.but(N=layers, seed=seed).offered(judged).sharpest(judged)
    component = case.loaded(judged)
    required = required_maps(part, case.visible, case.memory_visible if case.decodes else None, case.depth)
    seen = by_perturbation(component, case.inputs, required, seed=seed)
    found = [flow(required, seen, case.real, means="perturbation")]
    if has_method(component, "gradients"):
        seen = by_gradient(component, case.inputs, required, case.real, seed=seed)
        found.append(flow(required, seen, case.real, means="gradient"))
    return found


def _of_model(judged: JudgedImplementation, part: str, norm: str, layers: int, seed: int) -> Flow:
    """Ids in, logits out: an encoder alone sees everything, the others what came before."""
    import numpy as np

    from attest.checks.flow import by_perturbation, flow, required_maps, within_rows
    from attest.contract import OPERATIONS, Config
    from attest.reference.oracle import random_parameters

    sizes: dict[str, Any] = {"d_model": 8, "num_heads": 2, "d_ff": 16, "source_vocab": 9, "target_vocab": 9}
    sizes |= {"num_encoder_layers": layers, "num_decoder_layers": layers, "max_len": 8, "norm": norm}
    config = judged.claims.nearest(part, Config(**sizes, dtype=judged.sharpest))
    B, T, S = 2, 4, 3
    rng, record = np.random.default_rng(seed), OPERATIONS[part]
    lengths = {stream: S if "S" in record.takes[stream].words else T for stream in reversed(record.streams)}
    inputs = {
        stream: 3 + rng.permuted(np.arange(B * 6).reshape(B, 6) % 6, axis=1)[:, :n]
        for stream, n in lengths.items()
    }
    model = judged.build(part, config)
    model.load(random_parameters(part, config, rng))
    causal = "num_decoder_layers" in record.reads
    visible = np.broadcast_to(np.tri(T, dtype=bool) if causal else np.ones((T, T), bool), (B, T, T))
    memory = np.ones((B, T, S), bool) if len(record.streams) > 1 else None
    required = required_maps(part, visible, memory, layers)
    if len(record.gives["logits"].split()) == 2:  # a row has one answer, which every token of it may move
        required = {name: within_rows(np.ones((B, 1, T), bool)) for name in required}
    seen = by_perturbation(model, inputs, required, seed=seed)
    rows = np.ones(required[record.streams[0]].shape[:2], bool)
    return flow(required, seen, rows, output="logits", means="perturbation")


def _of_causal_layer(judged: JudgedImplementation, norm: str, seed: int) -> Flow:
    import numpy as np

    from attest.checks.flow import by_perturbation, flow, required_maps
    from attest.milestones.m09_models_of_today.cases.causal_layers import CausalLayerCase

    case = CausalLayerCase(B=2, T=4, d_ff=16, options="norm:pre" if norm == "pre" else "", seed=seed)
    component = case.sharpest(judged).loaded(judged)
    visible = np.broadcast_to(np.tri(4, dtype=bool), (2, 4, 4))
    required = required_maps("causal_layer", visible, None, 1)
    seen = by_perturbation(component, case.sharpest(judged).inputs, required, seed=seed)
    return flow(required, seen, np.ones((2, 4), bool), means="perturbation")
