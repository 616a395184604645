"""What a sealed process is started with: the public modules as code, and nothing else of the harness."""

from __future__ import annotations

import importlib.util
import marshal
import os
import site
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, cast

# What a plugin may import (`attest`, `attest.contract`, `attest.adapters`), and what loads and serves it.
PUBLIC = (
    "attest", "attest.contract", "attest.adapters", "attest.declared", "attest.machine", "attest.outcomes",
    "attest.registry", "attest.sealed", "attest.sealed.wire", "attest.sealed.process_state",
    "attest.sealed.guard", "attest.sealed.inside",
)  # fmt: skip
ALONE = ("attest", "attest.sealed")  # of these packages only what is listed
KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "CC", "CXX", "LD_LIBRARY_PATH", "SHELL",
    "DYLD_LIBRARY_PATH", "XDG_CACHE_HOME", "SSL_CERT_FILE",
)  # fmt: skip
KEPT_BEGINNINGS = (
    "LC_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "CUDA_",
    "NVIDIA_",
    "TORCH",
    "TRITON",
    "NUMEXPR_",
    "HF_",
)
SYSTEM = ("/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/sys", "/usr")

# Runs first in the new process: reads the code from the pipe and serves every import of attest.
BOOT = """
import importlib.machinery, marshal, os, struct, sys
def exactly(count):
    data = b""
    while len(data) < count:
        data += os.read(int(sys.argv[1]), count - len(data)) or sys.exit(1)
    return data
sent = marshal.loads(exactly(struct.unpack("<Q", exactly(8))[0]))
class Sealed:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "attest":
            return None
        if name not in sent["modules"]:
            raise ModuleNotFoundError(f"{name} cannot be imported in a sealed run", name=name)
        return importlib.machinery.ModuleSpec(name, self, is_package=sent["modules"][name][0])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(marshal.loads(sent["modules"][module.__name__][1]), module.__dict__)
sys.meta_path.insert(0, Sealed())
sys.path[:] = sent["path"]
from attest.sealed import guard
guard.restrict(sent["forbidden"], sent["unchangeable"], sent["scratch"])
from attest.sealed import inside
inside.serve(*map(int, sys.argv[1:]))
"""


def package(forbidden: Sequence[str], scratch: str) -> bytes:
    """What is written into the pipe of a new process, in front of the questions."""
    root = os.path.realpath(Path(__file__).parents[2])
    shared = os.path.isdir(os.path.join(root, "numpy"))  # installed: the same directory holds everything
    path = [entry for entry in sys.path if shared or os.path.realpath(entry) != root]
    data = marshal.dumps(
        {
            "modules": public_code(),
            "path": path,
            "forbidden": list(forbidden),
            "unchangeable": loaded_from(),
            "scratch": scratch,
        }
    )
    return struct.pack("<Q", len(data)) + data


def loaded_from() -> list[str]:
    """Where a new Python process takes code from: this environment, what is below it, the system's libraries.

    A directory within another one that is listed is left out, and so is the root of the file system.
    """
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    others = {site.getusersitepackages(), os.path.dirname(os.path.realpath(sys.executable))}
    named = prefixes | others | {*sys.path, *SYSTEM}
    found = sorted({os.path.realpath(path) for path in named if path and os.path.exists(path)} - {"/"})
    return [path for path in found if not any(path.startswith(above + "/") for above in found)]


def environment(scratch: str) -> Mapping[str, str]:
    """What an implementation may need to know of the machine; nothing that tells of the run."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(KEPT_BEGINNINGS)}
    return {**kept, "TMPDIR": scratch}


@cache
def public_code() -> dict[str, tuple[bool, bytes]]:
    """Every public module: whether it is a package, and its code without the path of its file."""
    found: dict[str, tuple[bool, bytes]] = {}
    root = Path(__file__).parents[2]
    for name in PUBLIC:
        home = root.joinpath(*name.split("."))
        files = [home.with_suffix(".py")] if not home.is_dir() else [home / "__init__.py"]
        if home.is_dir() and name not in ALONE:
            files = sorted(home.rglob("*.py"))
        for file in files:
            parts = file.relative_to(root).with_suffix("").parts
            package = parts[-1] == "__init__"
            found[".".join(parts[:-1] if package else parts)] = (package, _code(file, root))
    return found


def _code(file: Path, root: Path) -> bytes:
    name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    spec = importlib.util.find_spec(name)
    assert spec is not None
    code = cast(Any, spec.loader).get_code(name)  # from the cached bytecode where there is one
    return marshal.dumps(_renamed(code, f"<{name}>"))


def _renamed(code: CodeType, name: str) -> CodeType:
    inner = tuple(_renamed(c, name) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=name, co_consts=inner)
