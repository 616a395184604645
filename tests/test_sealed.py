"""A sealed implementation: what it cannot reach, what is still seen of it, and every cheat that must fail."""

import os
import re
import site
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import attest
from attest import machine
from attest.boundary import JudgedImplementation
from attest.checks.layouts import LAYOUTS, laid_out
from attest.checks.side_effects import expect_no_side_effects, python_work
from attest.contract import Config
from attest.outcomes import Ended, Violation
from attest.records.plan import Plan, Target
from attest.records.record import Record
from attest.registry import BrokenPlugin, UsageError, load, read_request
from attest.running import kept_records, plugin, selection, session
from attest.running.sealing import sealed_implementations
from attest.sealed.implementation import BringsMilestones
from attest.sealed.outside import live
from attest.spec import load_spec

HERE = Path(__file__).parent
HARNESS = Path(attest.__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a seal needs Linux")
SPEC = load_spec()
FORMULA = SPEC.by_id["M1.2"]
PLUGIN = """
import os, sys
import numpy as np
kept = []
class Mine:
    name = "mine"
    dtypes = ("float64",)
    def attention(self, config):
        def attend(q, k, v, mask=None, causal=False):
            {body}
        return attend
def attest_implementations():
    return [Mine()]
"""


@pytest.fixture
def sealed(tmp_path, monkeypatch):
    """Open a plugin in a sealed process; given text, a plugin whose attention has this body."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def open_plugin(plugin) -> JudgedImplementation:
        if isinstance(plugin, str):
            path = tmp_path / "mine.py"
            path.write_text(PLUGIN.format(body=textwrap.indent(plugin, " " * 12).strip()))
            plugin = path
        (found,) = sealed_implementations(read_request(str(plugin)), ())
        return JudgedImplementation(found)

    yield open_plugin
    for channel in live():
        channel.close()


def attention(impl, **inputs):
    x = np.arange(6.0).reshape(1, 2, 3)
    return impl.build("attention", Config())(**{"q": x, "k": x, "v": x, **inputs})


def refused(sealed, body):
    """The exception that this body raises inside, as the harness quotes it."""
    with pytest.raises(Violation) as caught:
        attention(sealed(body))
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["reference.oracle", "judging.property", "checks", "milestones", "records.plan"]
)
def test_the_harness_cannot_be_imported(name, sealed):
    seen = refused(sealed, f"import attest.{name}")
    assert "cannot be imported in a sealed run" in seen


def test_what_a_plugin_needs_can_be_imported(sealed):
    body = """
    from attest import Config, KnownFailure, ShapePolicy, hookimpl
    from attest.contract import Gradients, OPERATIONS
    return {"output": np.zeros(len(OPERATIONS))}
    """
    assert attention(sealed(textwrap.dedent(body).strip()))["output"].size > 20


@pytest.mark.parametrize(
    "path", [HARNESS / "outcomes.py", HARNESS.parents[1] / "spec" / "m01_attention.toml"]
)
def test_the_files_of_the_harness_cannot_be_read(path, sealed):
    for how in (f"open({str(path)!r})", f"os.open({str(path)!r}, os.O_WRONLY)"):
        assert "PermissionError" in refused(sealed, how)


def test_past_python_the_kernel_refuses_too(sealed):
    """The C library's open: no audit hook of Python hears of it."""
    path = str(HARNESS / "outcomes.py").encode()
    body = f"import ctypes; return {{'output': np.array(ctypes.CDLL(None).open({path!r}, 0))}}"
    assert attention(sealed(body))["output"] == -1


@pytest.mark.parametrize("place", [*site.getsitepackages(), sys.prefix, HARNESS.parent, "/etc"])
def test_nothing_can_be_put_where_the_next_process_would_import_it(place, sealed):
    """A .pth file in site-packages is run by every Python that starts, so by the harness's next process."""
    path = Path(place) / "attest_planted_by_a_test.pth"
    try:
        assert "PermissionError" in refused(sealed, f"open({str(path)!r}, 'w')")
        made = f"ctypes.CDLL(None).creat({str(path).encode()!r}, 384)"
        found = attention(sealed(f"import ctypes; return {{'output': np.array({made})}}"))
        assert found["output"] == -1
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


CHANGES = ("os.remove({0!r})", "os.rename({0!r}, {0!r} + '2')", "os.chmod({0!r}, 0)", "os.truncate({0!r}, 0)")


@pytest.mark.parametrize("how", CHANGES)
def test_what_is_imported_cannot_be_changed(how, sealed):
    """Of a file of this environment that nothing needs, should the seal be broken."""
    path = Path(site.getsitepackages()[0]) / "attest_unneeded_file_of_a_test.txt"
    path.write_text("as it was")
    try:
        assert "PermissionError" in refused(sealed, how.format(str(path)))
        assert path.read_text() == "as it was"
    finally:
        path.unlink(missing_ok=True)


def test_without_a_kernel_that_helps_python_itself_refuses(tmp_path, monkeypatch):
    """The audit hook alone, in a process that is not restricted otherwise."""
    closed, kept, scratch = (str(tmp_path / name) for name in ("closed", "kept", "closed/scratch"))
    for home in (closed, kept, scratch):
        os.mkdir(home)
        Path(home, "there").write_text("x")
    code = f"""
import os, sys
from attest.sealed import guard
sys.addaudithook(guard._hook(({closed!r},), ({kept!r},), {scratch!r}))
def refused(call, *args):
    try:
        call(*args)
    except PermissionError:
        return True
print([refused(open, {closed!r} + "/there"), refused(open, {kept!r} + "/there", "a"),
       refused(open, {kept!r} + "/new", "w"), refused(os.rename, {kept!r}, {kept!r} + "2"),
       refused(os.symlink, "x", {kept!r} + "/link"), refused(os.mkdir, {closed!r} + "/new"),
       refused(os.remove, {kept!r} + "/there"), refused(os.open, "/proc/1/environ", os.O_RDONLY)])
print([refused(open, {kept!r} + "/there"), refused(open, {scratch!r} + "/new", "w"),
       refused(open, "free", "w")])
"""
    words = [sys.executable, "-c", code]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == f"{[True] * 8}\n{[None] * 3}\n"


def test_records_and_trained_models_are_out_of_reach(tmp_path, sealed, monkeypatch):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "records.jsonl").write_text("{}")
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(body=f"open({str(tmp_path / 'records' / 'records.jsonl')!r}, 'a')"))
    (found,) = sealed_implementations(read_request(str(path)), [str(tmp_path / "records")])
    with pytest.raises(Violation, match="PermissionError"):
        attention(JudgedImplementation(found))


@pytest.mark.parametrize("file", ["mem", "maps", "environ", "cmdline"])
def test_the_process_that_judges_cannot_be_read(file, sealed):
    assert "PermissionError" in refused(sealed, f"open('/proc/%d/{file}' % os.getppid(), 'rb')")


def test_it_sees_neither_the_run_nor_its_paths(sealed, monkeypatch):
    monkeypatch.setenv("ATTEST_SECRET", "here")
    body = """
    names = [n for n in os.environ if n.startswith(("PYTEST", "ATTEST", "PYTHON"))]
    return {"output": np.array([len(names), *(n in sys.modules for n in ("pytest", "hypothesis"))])}
    """
    assert not attention(sealed(textwrap.dedent(body).strip()))["output"].any()


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("os._exit(7)", "ended the process with exit code 7"),
        ("os.kill(os.getpid(), 11)", "ended the process by signal 11"),
        (
            "for fd in range(3, 32):\n    try: os.write(fd, b'{}' * 99)\n    except OSError: pass",
            "wrote into",
        ),
        ("os.closerange(3, 64)", "ended the process"),
    ],
)
def test_an_end_of_its_process_is_told(body, end, sealed):
    impl = sealed(body)
    with pytest.raises(Ended, match=f"the implementation {end}"):
        attention(impl)
    with pytest.raises(Ended):
        attention(impl)


def test_exceptions_keep_their_class_and_text(sealed):
    body = "class Odd(KeyError): pass\nraise Odd('num_heads=3')"
    with pytest.raises(KeyError, match="num_heads=3") as caught:
        sealed(body).build("attention", Config()).component(q=np.zeros(1), k=np.zeros(1), v=np.zeros(1))
    assert type(caught.value).__name__ == "Odd"


ALIASES = {
    "input changed": ("q[...] = 1\nreturn {'output': np.zeros(3)}", "the input q"),
    "input returned": ("return {'output': q[::-1]}", "shares memory with the input q"),
    "own memory": (
        "kept.append(np.zeros(3)) if not kept else None\nreturn {'output': kept[0]}",
        "overwritten",
    ),
    "buffer": (
        "kept.append(np.zeros(3)) if not kept else None\nkept[0] += 1\nreturn {'output': kept[0]}",
        "kept",
    ),
    "random state": ("np.random.seed(0)\nreturn {'output': np.zeros(3)}", "changed numpy's random state"),
    "clean": ("return {'output': np.zeros(3)}", ""),
}


@pytest.mark.parametrize("name", ALIASES)
def test_side_effects_are_seen_across_the_seal_as_they_are_without(name, sealed, tmp_path):
    body, seen = ALIASES[name]
    impls = sealed(body), JudgedImplementation(load(read_request(str(tmp_path / "mine.py")))[0])
    x = np.arange(6.0).reshape(1, 2, 3)
    found = []
    for impl in impls:
        try:
            expect_no_side_effects(impl.build("attention", Config()), {"q": x, "k": x + 1, "v": x + 2})
            found.append("")
        except Violation as violation:
            found.append(violation.seen)
    assert found[0] == found[1]
    assert seen in found[0]
    assert bool(seen) == bool(found[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_arrive_as_they_are(layout, sealed):
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    given = laid_out({"q": x, "k": x, "v": x}, layout)
    body = (
        "return {'output': np.array([*q.strides, q.ctypes.data % 64, q is k, q.flags.writeable]), 'q': q * 1}"
    )
    found = sealed(body).build("attention", Config()).as_given(**given)
    q = given["q"]
    wanted = [*q.strides, q.ctypes.data % 64, q is given["k"], q.flags.writeable]
    assert found["output"].tolist() == wanted
    assert np.array_equal(found["q"], q)


def test_loops_in_python_are_counted_inside(sealed):
    impl = sealed("for _ in range(q.size): pass\nreturn {'output': q * 1}")
    component = impl.build("attention", Config())
    few, many = (python_work(component, {n: np.zeros((size, 2, 2)) for n in "qkv"}) for size in (1, 100))
    assert many > 10 * few


def test_a_broken_plugin_is_told_in_one_sentence(tmp_path, sealed):
    path = tmp_path / "broken.py"
    for text, sentence in {
        "raise OSError('no weights')": "cannot be imported (OSError: no weights)",
        "def attest_implementations(): return []": "returned an empty list",
        PLUGIN.format(body="pass").replace('"mine"', "5"): "has no name",
        PLUGIN.format(body="pass").replace('("float64",)', "'float32'"): "is not a list of words",
    }.items():
        path.write_text(text)
        with pytest.raises(BrokenPlugin, match=re.escape(sentence)):
            sealed(path)


def test_checkpoints_pass_between_the_two_processes(sealed):
    impl = sealed("with open(os.path.join(q, 'it'), 'w') as f: f.write('x')\nreturn {'output': np.zeros(1)}")
    with tempfile.TemporaryDirectory() as directory:
        impl.build("attention", Config()).component(q=directory, k=1, v=1)
        assert os.listdir(directory) == ["it"]


DAEMON = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}], start_new_session=True)
return np.zeros(1)
"""


@pytest.mark.parametrize("mode", ["--sealed", "--open"])
def test_what_it_starts_in_a_session_of_its_own_ends_with_the_run(mode, tmp_path):
    mark = f"attest-test-{os.getpid()}{mode}"
    body = textwrap.indent(DAEMON.format(mark=mark).strip(), " " * 12).strip()
    (tmp_path / "mine.py").write_text(PLUGIN.format(body=body))
    attest_command = Path(sys.executable).with_name("attest")
    words = ["run", "--impl", "mine.py", mode, "-c", "M1.2", "--profile", "quick", "-n", "0"]
    run = subprocess.run([attest_command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not any(mark.encode() in line for line in lines)


def test_the_harness_changed_under_seal_is_no_result(monkeypatch):
    plan = Plan((Target("mine", "mine.py", "mine", sealed=True),), ("M1.2",), reports="")
    found = iter(["before", "after"])
    monkeypatch.setattr(session, "fingerprint", lambda: next(found))
    conformance = session.Conformance(plan, SPEC, worker=False)
    assert conformance._fingerprint == "before"
    assert conformance._fingerprint_now() == "after"


def test_a_plugin_with_checks_of_its_own_is_refused_under_seal(tmp_path, sealed):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(body="pass") + "\ndef attest_milestones(): return []\n")
    with pytest.raises(BringsMilestones, match="judge it unsealed"):
        sealed(path)
    found = selection.targets([str(path)], dtype=None, device="cpu", seal=selection.Seal.FILES)[0]
    assert [target.sealed for target in found] == [False]


def test_each_worker_gets_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(session, "visible_gpus", lambda: ["2", "5"])
    plan = Plan((Target("mine", "mine.py", "mine", device="cuda"),), ("M1.2",), reports="")
    conformance = session.Conformance(plan, SPEC, worker=False)
    nodes = [SimpleNamespace(workerinput={}) for _ in range(3)]
    for node in nodes:
        conformance.pytest_configure_node(node)
    assert [node.workerinput["attest_gpu"] for node in nodes] == ["2", "5", "2"]
    conformance.pytest_testnodedown(nodes[1], "crashed")
    replaced, another = (SimpleNamespace(workerinput={}) for _ in range(2))
    conformance.pytest_configure_node(replaced)
    conformance.pytest_configure_node(another)
    assert (replaced.workerinput["attest_gpu"], another.workerinput["attest_gpu"]) == ("5", "5")


def test_auto_workers_are_as_many_as_gpus(monkeypatch):
    monkeypatch.setattr(machine, "visible_gpus", lambda: ["0", "1", "2"])
    option = SimpleNamespace(attest_impl=["eager"], attest_device="cuda")
    assert plugin.pytest_xdist_auto_num_workers(SimpleNamespace(option=option)) == 3
    option.attest_device = "cpu"
    option.attest_impl = ["eager", "compiled,device=cuda"]
    assert plugin.pytest_xdist_auto_num_workers(SimpleNamespace(option=option)) == 3
    option.attest_impl = ["eager", "compiled,device"]  # refused later, in one sentence
    assert plugin.pytest_xdist_auto_num_workers(SimpleNamespace(option=option)) is None


@pytest.mark.parametrize(
    "case",
    [
        "case=attention[B=1000000000 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=0]",
        "case=attention[B=-1 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=0]",
        "case=attention[B=1.5 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=0]",
        "case=attention[B=1 T=2 S=2 d_k=1 d_v=1 regime=nowhere dtype=float32 seed=0]",
        "case=attention[B=1 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float99 seed=0]",
        "case=attention[B=1 T=2 S=2 d_k=1 d_v=1 regime=unit dtype=float32 seed=-5]",
        "case=" + "[" * 4000,
    ],
)
def test_a_case_that_makes_no_sense_is_refused_before_the_run(case):
    with pytest.raises(UsageError) as caught:
        selection.check_case(case, [FORMULA], ())
    assert "\n" not in str(caught.value)


def test_resuming_from_a_line_that_is_no_record_is_refused(tmp_path):
    """A number where a word must be; a line that was cut short in the middle of the file."""
    good = Record("mine", "M1.2", "M1", "must", profile="quick").to_json()
    read = kept_records.read_records
    home = tmp_path / "mine"
    assert [r.criterion for r in read([good, good[:20]], home, SPEC)] == ["M1.2"]
    for bad in (good.replace('"must"', "5"), good[:20], "[]", "null"):
        with pytest.raises(UsageError, match=r"line 2 of .*records.jsonl is no record .*without --resume"):
            list(read([bad, good], home, SPEC))
