"""`attest list`: implementations, milestones, criteria, and the parameters of an operation."""

from __future__ import annotations

import click

MOST_LAYERS = 1000  # the largest models that are known have 126
SECTIONS = ("implementations", "milestones", "criteria")


@click.command("list", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--offers", is_flag=True, help="Load each implementation and show which operations it offers.")
@click.option("--impl", "-i", multiple=True, metavar="IMPL", help="With --offers: look at this one; repeats.")
@click.option(
    "--parameters", metavar="OPERATION", help="Canonical names and shapes of an operation's parameters."
)
@click.option("--families", is_flag=True, help="Families of models: what each fixes, leaves free and offers.")
@click.argument("words", nargs=-1, metavar="[SECTION] [NAME=VALUE]...")
def command(
    offers: bool, impl: tuple[str, ...], parameters: str | None, families: bool, words: tuple[str, ...]
) -> None:
    """Show what there is: implementations, milestones and criteria, or the SECTION of that name.

    With --parameters, NAME=VALUE changes the config:

        attest list --parameters multi_head_attention d_model=16 bias=false
    """
    sections = [w for w in words if "=" not in w]
    overrides = [w for w in words if "=" in w]
    for section in sections:
        if section not in SECTIONS:
            raise click.UsageError(f"section={section!r} is unknown; use one of {', '.join(SECTIONS)}")
    if overrides and parameters is None:
        raise click.UsageError(f"{overrides[0]!r} changes a config; it needs --parameters OPERATION")
    if families:
        _show_families()
    elif parameters is not None:
        _show_parameters(parameters, overrides)
    elif offers or impl:
        _show_offers(impl)
    else:
        _print_sections(sections or list(SECTIONS))


def _print_sections(sections: list[str]) -> None:
    from attest.registry import registered
    from attest.spec import load_spec

    spec = load_spec()
    if "implementations" in sections:
        click.echo("implementations (--impl=NAME)")
        for name, point in sorted(registered().items()):
            click.echo(f"  {name:<16} {point.value}")
    if "milestones" in sections:
        click.echo("milestones (--milestone=ID)")
        for m in spec.milestones:
            musts = sum(c.level == "must" for c in m.criteria)
            click.echo(f"  {m.id:<5} {m.title} ({len(m.criteria)} criteria, {musts} must)")
    if "criteria" in sections:
        click.echo("criteria (--criterion=ID; attest explain ID)")
        for c in spec.criteria:
            click.echo(f"  {c.id:<6} {c.level:<6}  {c.title}")


def _show_offers(requests: tuple[str, ...]) -> None:
    from attest.registry import parse_request, registered_names
    from attest.running.selection import ask
    from attest.spec import load_spec

    broken = []
    for text in requests or registered_names():
        answer = ask(parse_request(text))
        if answer.broken:
            click.echo(f"{text}: broken\n  {answer.broken}")
            broken.append(answer.broken)
        for found in answer.found:
            click.echo(f"{found['name']}: {found['description']}" if found["description"] else found["name"])
            for milestone, operations in load_spec(answer.milestones).operations.items():
                names = [o for o in operations if o in found["offers"]]
                missing = [o for o in operations if o not in names]
                if names:
                    rest = f"   (not {', '.join(missing)})" if missing else ""
                    click.echo(f"  {milestone}  {', '.join(names)}{rest}")
            if found["claims"]:
                _show_wrapped("declares", found["claims"])
            _show_wrapped("judged on", ", ".join(found["features"]))
            _show_wrapped("padding", ", ".join(found["padding"]))
            click.echo(f"  computes in {', '.join(found['dtypes'])} on {', '.join(found['devices'])}")
    if broken:
        more = f" ({len(broken) - 1} more are broken too)" if broken[1:] else ""
        raise click.UsageError(f"{broken[0]}{more}")


def _show_wrapped(label: str, text: str) -> None:
    import textwrap

    click.echo(textwrap.fill(text, 100, initial_indent=f"  {label:<10} ", subsequent_indent=" " * 13))


def _show_families() -> None:
    import textwrap

    from attest.families import families

    for family in families().values():
        click.echo(f"{family.name}: {family.title}")
        click.echo(textwrap.fill(family.says(), 100, initial_indent="  ", subsequent_indent="  "))
        click.echo(textwrap.fill(f"offers {', '.join(family.operations)}", 100, initial_indent="  ",
                                 subsequent_indent="  "))  # fmt: skip
    click.echo('declare families = ("llama",), or judge the class of transformers: --impl hf:llama')


def _show_parameters(operation: str, overrides: list[str]) -> None:
    from attest.contract import OPERATIONS
    from attest.contract.parameters import shapes
    from attest.reference.validation import refuse_config
    from attest.spelling import config_from, nearest

    if operation not in OPERATIONS:
        raise click.UsageError(f"operation={operation!r} is unknown; {nearest(operation, OPERATIONS)}")
    config = config_from(overrides)
    for name in ("num_encoder_layers", "num_decoder_layers"):
        if (layers := getattr(config, name)) > MOST_LAYERS:
            raise click.UsageError(f"{name}={layers} is too long a list; use at most {MOST_LAYERS}")
    try:
        refuse_config(config, OPERATIONS[operation].reads)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = shapes(operation, config)
    if not found:
        click.echo(f"{operation} has no parameters")
        return
    width = max(map(len, found))
    total = 0
    for name, shape in found.items():
        size = 1
        for n in shape:
            size *= n
        total += size
        click.echo(f"{name:<{width}}  ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})")
    click.echo(f"{len(found)} array{'s' * (len(found) > 1)}, {total} numbers")
