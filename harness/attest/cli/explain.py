"""`attest explain`: a criterion, a milestone, a symptom or a defect."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.spec import Criterion, MilestoneSpec, Spec


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, required=True, metavar="WHAT")
def command(words: tuple[str, ...]) -> None:
    """Explain WHAT: a criterion (M1.5), a milestone (M1), a symptom (flat loss) or a defect (no_scale)."""
    from attest.spec import load_spec

    spec = load_spec()
    what = " ".join(words).strip()
    if not what:
        raise click.UsageError("'' names nothing; give a criterion, milestone, symptom or defect")
    criterion = {id.lower(): c for id, c in spec.by_id.items()}.get(what.lower())
    milestone = {m.id.lower(): m for m in spec.milestones}.get(what.lower())
    if criterion:
        _explain_criterion(criterion, spec)
    elif milestone:
        _explain_milestone(milestone)
    elif not (_explain_defect(what, spec) or _explain_symptom(what, spec)):
        raise click.UsageError(_unknown(what, spec))


def _explain_criterion(criterion: Criterion, spec: Spec) -> None:
    from attest.judging.catalogue import killed_by

    milestone = spec.milestone(criterion.milestone)
    click.echo(f"{criterion.id} {criterion.title} ({criterion.level})")
    _paragraph("required", criterion.statement)
    _paragraph("why", criterion.why)
    _paragraph("hint", criterion.hint)
    for key in criterion.acceptance:
        _paragraph(f"{milestone.id}-{key}", milestone.acceptance[key])
    _paragraph("needs", ", ".join(criterion.needs))
    _paragraph(
        "stands on", "; ".join(f"{id} {spec.by_id[id].title}" for id in criterion.stands_on) or "nothing"
    )
    if criterion.symptoms:
        _paragraph("symptoms", ", ".join(criterion.symptoms))
    _paragraph("sources", "; ".join(criterion.sources))
    _paragraph("judged up to", _reach(criterion.id), margin=16)
    defects = killed_by(criterion.id)
    if defects:
        click.echo("  defects it kills")
        for defect in defects:
            _paragraph(f"  {defect.name}", " ".join(defect.sin.split()), margin=34)
    click.echo(f"\n  pytest --impl=mine.py --criterion {criterion.id}")


def _reach(criterion: str) -> str:
    """The largest sizes that are drawn: a pass says nothing beyond them."""
    from attest.judging.reach import judged_up_to

    sizes = ", ".join(f"{name} = {size}" for name, size in judged_up_to(criterion).items())
    return sizes or "the fixed cases of its properties; no size is drawn"


def _explain_milestone(milestone: MilestoneSpec) -> None:
    click.echo(f"{milestone.id} {milestone.title}")
    _paragraph("", milestone.summary, margin=2)
    for key, text in milestone.acceptance.items():
        _paragraph(f"{milestone.id}-{key}", text)
    _paragraph("operations", ", ".join(milestone.operations))
    click.echo("  criteria")
    for c in milestone.criteria:
        click.echo(f"    {c.id:<6} {c.level:<6}  {c.title}")


def _explain_symptom(what: str, spec: Spec) -> bool:
    from attest.report.symptoms import SEEN_AS, matching, symptoms

    known = symptoms(spec)
    for symptom in matching(what, list(known))[:2]:
        click.echo(f"{symptom}: {SEEN_AS.get(symptom, '')}")
        for c in known[symptom]:
            click.echo(f"  {c.id:<6} {c.title}")
            _paragraph("", c.hint, margin=9)
        ids = " ".join(f"--criterion {c.id}" for c in known[symptom])
        click.echo(f"  pytest --impl=mine.py {ids}")
    return bool(matching(what, list(known)))


def _explain_defect(what: str, spec: Spec) -> bool:
    if not what.isidentifier():
        return False
    from attest.judging.catalogue import defects

    defect = defects().get(what)
    if defect is None:
        return False
    click.echo(f"{defect.name} (a known defect)")
    _paragraph("", " ".join(defect.sin.split()), margin=2)
    for id in defect.killers:
        _paragraph(f"caught by {id}", f"{spec.by_id[id].title}. {spec.by_id[id].hint}", margin=20)
    return True


def _unknown(what: str, spec: Spec) -> str:
    from attest.report.symptoms import symptoms
    from attest.spelling import nearest

    known = [*spec.by_id, *(m.id for m in spec.milestones), *symptoms(spec)]
    remedy = nearest(what, known)
    if remedy.startswith("use one of"):
        remedy = f"give a criterion of `attest list criteria`, or one of: {', '.join(symptoms(spec))}"
    return f"{what!r} is not a criterion, milestone, symptom or defect; {remedy}"


def _paragraph(name: str, text: str, *, margin: int = 13) -> None:
    width = shutil.get_terminal_size((100, 24)).columns
    lines = textwrap.wrap(" ".join(text.split()), max(min(width, 110) - margin, 30)) or [""]
    click.echo(f"  {name}".ljust(margin - 1) + " " + lines[0] if name else " " * margin + lines[0])
    for line in lines[1:]:
        click.echo(" " * margin + line)
