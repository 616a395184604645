"""The page that `make gpu-emulation` writes."""

from collections import Counter

from gpu_emulation.versions import LINE, TORCH, TRITON

SEEN = {
    "outputs_not_cloned": "outputs of a CUDA graph are handed out without a copy",
    "caches_may_move": "caches are not marked as staying where they are",
    "branch_of_the_device": "a wrong place in a branch that only CUDA takes",
    "caches_not_initialised": "caches hold what lay in that memory",
    "caches_exchanged": "a beam goes on in new caches at every step",
}

MODELS = {
    "transformer": "the encoder-decoder: logits, gradients, cached steps, greedy and beam",
    "language_model": "the same of a decoder-only model: rotary positions, a shared key head, a window",
}


def page(found, wrong):
    """Markdown; a part that did not run is said to be missing."""
    lines = [
        "# The CUDA path without a GPU",
        "",
        f"{LINE}; torch {TORCH}, Triton {TRITON}.",
        "`make gpu-emulation` writes this page; parts of it can be run alone.",
        "",
        "This is no GPU: cuBLAS, the fused attention kernels, the hardware's schedule and memory model, real",
        "asynchrony and speed are not seen. MC.7a stays *not run* in every report until a real GPU ran it.",
        "Memory that nobody wrote, freed memory and outputs of earlier CUDA graphs are nan; behind every",
        "block lies a red zone.",
        "",
    ]
    lines += _eager(found.get("eager")) + _compiled(found) + _faults(found.get("faults"))
    lines += _cubins(found.get("cubins"))
    lines += [
        "## What is not as it should be",
        "",
        *([f"- {w}" for w in wrong] or ["Nothing in what ran."]),
        "",
    ]
    return "\n".join(lines)


def _eager(part):
    head = ["## eager, `--attest-device cuda`, quick", ""]
    if not part:
        return [*head, "Not run.", ""]
    counted = Counter(verdict for answer in part.values() for _, verdict in answer["criteria"])
    each = ", ".join(f"{name} {answer['verdict']}" for name, answer in sorted(part.items()))
    return [*head, f"{', '.join(f'{n} {v}' for v, n in counted.most_common())}. {each}.", ""]


def _compiled(found):
    head = ["## compiled, inductor's Triton code interpreted", ""]
    answers = found.get("compiled", {})
    asked = {
        "MC.7a's question": (_question, answers.get("MC.7a")),
        "the same with programs in a random order": (_question, found.get("order", {}).get("MC.7a")),
        **{f"{said} beside eager in float64": (_seen, answers.get(name)) for name, said in MODELS.items()},
    }
    rows = [f"| {what} | {tell(answer) if answer else 'not run'} |" for what, (tell, answer) in asked.items()]
    return [*head, "| asked | seen |", "|---|---|", *rows, ""]


def _question(answer):
    said = answer.get("error") or answer.get("MC.7a") or "answered rightly"
    return f"{said}; {answer.get('kernels', 0)} kernels, {answer.get('overruns', 0)} overruns"


def _seen(answer):
    if "error" in answer:
        return f"error: {answer['error']}"
    off = ", ".join(f"{name} {value:.1e}" for name, value in answer.items() if name.endswith(" off by"))
    same = "same tokens" if answer["same tokens"] else "other tokens"
    graphs = f"{answer['recorded']} graphs recorded, {answer['replayed']} replays"
    return (
        f"{off}; {same}; {graphs}, {answer['recorded in a beam']} recorded in a second beam of 8 tokens, "
        f"{answer['not recorded']} not recorded for writing to an input that may move"
    )


def _faults(part):
    head = ["## Faults that checks of devices and shapes cannot see", ""]
    if not part:
        return [*head, "Not run.", ""]
    rows = [f"| {said} | {_seen(part[name]) if name in part else 'not run'} |" for name, said in SEEN.items()]
    return [*head, "| fault | seen |", "|---|---|", *rows, ""]


def _cubins(part):
    head = ["## Kernels of compiled as machine code", ""]
    if not part:
        return [*head, "Not run.", ""]
    kernels = [kernel for each in part.values() for kernel in each]
    lines = [
        *head,
        "The largest figures over the configurations between which a GPU would choose; bytes.",
        "",
    ]
    for target in dict.fromkeys(k["target"] for k in kernels):
        lines.append(
            f"- {target}: {_total([k for k in kernels if k['target'] == target and not k['error']])}"
        )
    columns = ("kernel", "target", "registers", "stack", "shared", "TF32", "atomics")
    lines += ["", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [
        f"| {k['name']} | {k['target']} | {k['registers']} | {k['stack']} | {k['shared']} | "
        f"{'yes' if k['tf32'] else 'no'} | {k['atomics']} |"
        for k in sorted(kernels, key=lambda k: (k["name"], k["target"]))
        if not k["error"]
    ]
    return [*lines, ""]


def _total(kernels):
    most = max(k["registers"] for k in kernels)
    stack, atomics = (sum(k[name] > 0 for k in kernels) for name in ("stack", "atomics"))
    return (
        f"{len(kernels)} kernels, {sum(k['configurations'] for k in kernels)} configurations; at most {most} "
        f"registers; {stack} use a stack, {sum(k['tf32'] for k in kernels)} TF32, {atomics} atomics"
    )
