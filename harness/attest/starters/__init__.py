"""Plugin files that `attest new` writes: each runs at once."""

from __future__ import annotations

from importlib.resources import files

from attest.families import Family

FRAMEWORKS = ("numpy", "torch")
ACTIVATIONS = {
    "silu": "nn.functional.silu",
    "relu": "nn.functional.relu",
    "gelu": "nn.functional.gelu",
    "gelu_tanh": 'nn.GELU(approximate="tanh")',
}
NOTHING = (None, False, "none")  # values of an option that need no line of code
SECTION = "#["  # begins a line that says which families the lines below are for


def starter(framework: str, name: str) -> str:
    """The text of a plugin whose implementation has this name."""
    return _text(f"{framework}_plugin").replace("@name@", name)


def family_starter(family: Family, name: str) -> str:
    """The text of a port of this family: a small model that runs, to be replaced by one's own."""
    kept, wanted, lines = _sections(family), True, []
    for line in _text(f"{family.operation}_plugin").splitlines():
        if line.startswith(SECTION):
            wanted = line.strip("#[]") in kept
        elif wanted:
            lines.append(line)
    text = _spaced("\n".join(lines)) + "\n"
    activation = ACTIVATIONS[family.values("activation")[0]]
    return text.replace("ACTIVATION", activation).replace("@family@", family.name).replace("@name@", name)


def _sections(family: Family) -> set[str]:
    """The sections of the template that a family needs."""
    names = ("gated", "parallel", "window", "embedding_norm", "rotary_scaling")
    options = {name: family.values(name) for name in names}
    has = {name for name, given in options.items() if given == "any" or any(v not in NOTHING for v in given)}
    plain = set() if "gated" in has else {"plain"}
    return {"all", family.fixed["positions"], family.values("norm_kind")[0]} | has | plain


def _spaced(text: str) -> str:
    """Two empty lines before what stands at the margin, none twice."""
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    for word in ("def ", "class ", "@"):
        text = text.replace(f"\n\n{word}", f"\n\n\n{word}").replace(f"\n\n\n\n{word}", f"\n\n\n{word}")
    return text


def _text(name: str) -> str:
    return files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
