"""Studies: measurements on an implementation that explain a choice of the spec and judge nothing.

Shapes: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attest.boundary import JudgedComponent, JudgedImplementation
from attest.checks.arrays import expect
from attest.contract import Array, Arrays, Config
from attest.outcomes import NotOffered
from attest.report.writing import write_text
from attest.trained.tasks import PAD, TRAINING, Task

DEPTHS = (6, 12, 24)
NORMS = ("post", "pre")
CRITERION = "M4.2"  # the study explains this one, and reports show it there
Study = dict[str, Any]


def norm_study(
    impl: JudgedImplementation,
    *,
    depths: Sequence[int] = DEPTHS,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Study:
    """Gradient norm by layer of newly built models, one batch of the copy task, both norm placements.

    Where there is no transformer, of an encoder with random cotangents.
    """
    operation = "transformer" if impl.offers("transformer") else "encoder"
    measure = _of_model if operation == "transformer" else _of_encoder
    rows = []
    for depth in depths:
        for norm in NORMS:
            progress(f"{operation} of depth {depth}, norm {norm}")
            config = TRAINING.but(
                norm=norm,
                num_encoder_layers=depth,
                num_decoder_layers=depth,
                dropout=0.0,
                seed=seed,
                dtype=impl.dtypes[0],
            )
            for stack, values in measure(impl, config, depth, seed).items():
                rows.append({"norm": norm, "depth": depth, "stack": stack, "gradient_norm": values})
    return {
        "format": 1,
        "study": "norm",
        "criterion": CRITERION,
        "implementation": impl.name,
        "operation": operation,
        "task": "copy, one batch of 64, untrained" if operation == "transformer" else "random cotangents",
        "d_model": TRAINING.d_model,
        "seed": seed,
        "depths": list(depths),
        "layers": rows,
        "curves": _curves(rows),
    }


def _of_model(impl: JudgedImplementation, config: Config, depth: int, seed: int) -> dict[str, list[float]]:
    """The gradient norms of a whole model, for the cross-entropy of the next token."""
    batch = next(Task("copy").batches("train", seed))
    model = _new(impl, "transformer", config)
    inputs = {"source": batch["source"], "target": batch["target"][:, :-1]}
    seen = model(**inputs)
    expect("logits" in seen, f"transformer returned {sorted(seen)}, should return logits")
    cotangent = cross_entropy_gradient(seen["logits"], batch["target"][:, 1:])
    found = model.gradients(inputs, {"logits": cotangent}).parameters
    return {stack: layer_norms(found, f"{stack}.", depth) for stack in ("encoder", "decoder")}


def _of_encoder(impl: JudgedImplementation, config: Config, depth: int, seed: int) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    encoder = _new(impl, "encoder", config)
    x, cotangent = (rng.standard_normal((8, 16, config.d_model)).astype(np.float32) for _ in range(2))
    dtype = np.float64 if config.dtype == "float64" else np.float32
    found = encoder.gradients({"x": x.astype(dtype)}, {"output": cotangent.astype(dtype)}).parameters
    return {"encoder": layer_norms(found, "", depth)}


def _new(impl: JudgedImplementation, operation: str, config: Config) -> JudgedComponent:
    """A component with the parameters it starts with."""
    placed = impl.with_run_options(config)
    component = JudgedComponent(operation, impl.construct(operation, placed), placed, impl)
    if not callable(getattr(component.component, "gradients", None)):
        raise NotOffered(f"{operation} has no gradients(); the study measures them")
    return component


def cross_entropy_gradient(logits: Array, labels: Array) -> Array:
    """The gradient with respect to logits (B, T, V) of the mean loss over labels that are not padding."""
    wide = logits.astype(np.float64)
    p = np.exp(wide - wide.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    wanted = labels[..., None] == np.arange(logits.shape[-1])
    counted = labels != PAD
    gradient: Array = (p - wanted) * counted[..., None] / max(int(counted.sum()), 1)
    return gradient.astype(logits.dtype)


def layer_norms(gradients: Arrays, prefix: str, depth: int) -> list[float]:
    """The norm over all parameters of each layer of a stack, from the bottom."""
    norms = []
    for i in range(depth):
        own = [g for name, g in gradients.items() if name.startswith(f"{prefix}{i}.")]
        expect(bool(own), f"no gradient of layer {prefix}{i}")
        norms.append(float(np.sqrt(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in own))))
    return norms


def _curves(rows: Sequence[Study]) -> dict[str, Study]:
    """The same in the form in which reports draw curves: one chart per stack and depth."""
    return {
        f"{row['norm']} {row['stack'][:3]} {row['depth']}": {
            "x": list(range(1, row["depth"] + 1)),
            "y": row["gradient_norm"],
            "x_label": "layer, from the bottom",
            "y_label": f"gradient norm, {row['stack']} of {row['depth']}",
        }
        for row in rows
    }


def write_study(
    study: Study,
    directory: Path,
    draw: Callable[[Study], str | None] | None = None,
    page: Callable[[Study], str] | None = None,
) -> list[Path]:
    """study_NAME.json in the implementation's reports, a page where there is one, and study_NAME.svg where
    matplotlib is installed."""
    draw = draw or draw_norms
    home = directory / str(study["implementation"])
    data = home / f"study_{study['study']}.json"
    write_text(data, json.dumps(study, indent=1, allow_nan=False) + "\n")
    written = [data]
    for suffix, text in ((".md", page(study) if page else None), (".svg", draw(study))):
        if text is not None:
            written.append(data.with_suffix(suffix))
            write_text(written[-1], text)
    return written


def draw_norms(study: Study) -> str | None:
    """An SVG with one panel per depth; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    import io

    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "attest", "svg.fonttype": "none"}):
        depths = study["depths"]
        figure = Figure(figsize=(3.4 * len(depths), 3.2), layout="constrained")
        panels = figure.subplots(1, len(depths), sharey=True, squeeze=False)[0]
        for panel, depth in zip(panels, depths):
            _draw_panel(panel, [row for row in study["layers"] if row["depth"] == depth])
            panel.set(title=f"{depth} layers", xlabel="layer, from the bottom", yscale="log")
        panels[0].set_ylabel("gradient norm at the start")
        panels[-1].legend(fontsize="small")
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def _draw_panel(panel: Any, rows: Sequence[Study]) -> None:
    colours, lines = {"post": "tab:red", "pre": "tab:blue"}, {"encoder": "-", "decoder": "--"}
    for row in rows:
        layers = range(1, len(row["gradient_norm"]) + 1)
        style = {"color": colours[row["norm"]], "linestyle": lines[row["stack"]]}
        panel.plot(layers, row["gradient_norm"], label=f"{row['norm']}-norm {row['stack']}", **style)
