"""Hostile plugins as texts: each has one hostile piece in an otherwise correct plugin."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torture.answers import ANSWERS, OUTPUTS
from torture.declarations import BUILDERS, DECLARED, HOOKS, TOPS
from torture.surroundings import SURROUNDINGS

CRITERIA = ("M1.5a", "M1.4b")  # causal_mask, where a hostile body is, and length_mask, where none is
PLUGIN = """
{top}
import atexit, ctypes, gc, itertools, os, resource, signal, subprocess, sys, threading, time
import numpy as np

class Subject:
    name = "{name}"
    {declared}
    def length_mask(self, lengths, size):
        return (np.arange(size) < np.asarray(lengths)[:, None])[:, None]
    def causal_mask(self, T, S):
        {body}
        return np.tri(T, S, S - T, dtype=bool)

def attest_implementations():
    {hook}
    return [Subject()]
"""
BODIES = {
    "segfault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "exit": "os._exit(0)",
    "sys_exit": "sys.exit(0)",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "generator_exit": "raise GeneratorExit",
    "odd_base_exception": "raise type('Odd', (BaseException,), dict())('x')",
    "loop": "while True: pass",
    "loop_in_c": "sum(itertools.repeat(1))",
    "swallows_timeouts": """
        while True:
            try: time.sleep(1)
            except BaseException: pass
    """,
    "blocks_signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(600)",
    "ignores_the_alarm": """
        signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(600)
    """,
    "stops_itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "stops_parent": "os.kill(os.getppid(), signal.SIGSTOP)",
    "kills_parent": "os.kill(os.getppid(), 9)",
    "kills_group": "os.killpg(0, 9)",
    "forks": "os.fork() or time.sleep(600)",
    "forks_a_few_daemons": """
        for _ in range(5):
            if not os.fork():
                os.setsid(); time.sleep(600)
    """,
    "starts_a_server": "subprocess.Popen([sys.executable, '-m', 'http.server', '0'], start_new_session=True)",
    "thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "many_threads": "[threading.Thread(target=time.sleep, args=(600,)).start() for _ in range(500)]",
    "exit_handler_hangs": "atexit.register(time.sleep, 600)",
    "exit_handler_at_exit": "atexit.register(os.abort); sys.exit(1)",
    "writes_after_its_return": """
        mask = np.tri(T, S, S - T, dtype=bool)
        def spoil():
            while True: mask[...] = ~mask
        threading.Thread(target=spoil, daemon=True).start()
        return mask
    """,
    "gc_callback_raises": "gc.callbacks.append(lambda *_: 1 / 0); gc.set_threshold(1)",
    "gc_callback_interrupts": "gc.callbacks.append(lambda *_: os.kill(os.getpid(), 2)); gc.collect()",
    "finaliser_raises": "type('Late', (), dict(__del__=lambda self: sys.exit(9)))()",
    "finaliser_exits": "late = type('Late', (), dict(__del__=lambda self: os._exit(9)))(); del late",
    "trace_raises": "sys.settrace(lambda *_: 1 / 0)",
    "profile_exits": "threading.setprofile(lambda *_: sys.exit(1)); sys.setprofile(lambda *_: sys.exit(1))",
    "excepthook_exits": "sys.excepthook = sys.unraisablehook = lambda *_: os._exit(1); 1 / 0",
    "chdir": "os.chdir('/')",
    "deletes_cwd": "import tempfile; os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())",
    "closes_descriptors": "os.closerange(0, 256)",
    "swaps_descriptors": """
        for fd in range(3, 20):
            try: os.dup2(0, fd)
            except OSError: pass
    """,
    "leaks_descriptors": """
        try:
            while True: os.open("/", 0)
        except OSError: pass
    """,
    "no_descriptors_left": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "no_memory_left": "resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))",
    "no_file_sizes_left": "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "replaces_stdout": "sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None",
    "closes_stdout": "sys.stdout.close(); sys.__stdout__.close()",
    "patches_numpy": "np.tri = np.arange = np.array = np.asarray = None",
    "patches_json": "import json; json.dumps = json.loads = None",
    "patches_pytest": "sys.modules['pytest'] = sys.modules['attest'] = None",
    "patches_time": "time.monotonic = time.perf_counter = time.sleep = lambda *_: float('nan')",
    "patches_os": "os.write = os.read = os.close = os._exit = None",
    "patches_builtins": "import builtins; builtins.open = builtins.print = builtins.isinstance = None",
    "empties_modules": "sys.modules.clear()",
    "empties_path": "sys.path[:] = []; sys.meta_path[:] = []",
    "recursion": "return self.causal_mask(T, S)",
    "memory": "np.ones(10**15)",
    "surrogate": "raise ValueError('\\udcff')",
    "escapes": "raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')",
    "mute_exception": "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})",
    "exception_that_exits": "raise type('Mute', (Exception,), {'__str__': lambda self: sys.exit(3)})",
    "exception_group": "raise BaseExceptionGroup('both', [KeyboardInterrupt(), SystemExit(0)])",
    "endless_exception": "raise ValueError('x' * 10**8)",
    "raises_a_skip": "import pytest; pytest.skip('not today')",
    "raises_an_exit": "import pytest; pytest.exit('enough', 0)",
    "raises_an_unfit_case": "import hypothesis; hypothesis.reject()",
    "raises_the_end_of_an_example": """
        from hypothesis.errors import StopTest
        raise StopTest(0)
    """,
    "raises_a_time_limit": "from attest.outcomes import Timeout; raise Timeout('in time')",
    "raises_not_run": "from attest.outcomes import NotRun; raise NotRun('no machine')",
    "cancelled": "import asyncio; raise asyncio.CancelledError",
    "floods_stderr": "os.write(2, b'x' * 3_000_000); 1 / 0",
    "writes_no_utf8": "os.write(1, b'\\xff\\xfe' * 1000)",
    "forges_records": """
        for fd in [int(n) for n in os.listdir('/proc/self/fd') if int(n) > 2]:
            try: os.write(fd, b'{}\\n')
            except OSError: pass
    """,
    "returns_none": "return None",
    "returns_liar": "return np.lib.stride_tricks.as_strided(np.ones(1, bool), (10**6, 10**6), (0, 0))",
    "returns_a_lying_subclass": """
        lie = property(lambda self: 1 / 0)
        lies = dict(__array__=lambda *_: 1 / 0, shape=lie, dtype=lie, strides=lie, flags=lie)
        return np.tri(T, S, S - T, dtype=bool).view(type('Lie', (np.ndarray,), lies))
    """,
    "returns_a_subclass_that_counts_as_equal": """
        class Equal(np.ndarray):
            def __array_ufunc__(self, *_, **__): return True
            def __array_function__(self, *_): return True
        return np.zeros((T, S), bool).view(Equal)
    """,
    "returns_objects": "return np.array([[type('E', (), {'__eq__': lambda *_: True})()] * S] * T)",
    "returns_itself_in_itself": "found = []; found.append(found); return found",
    "returns_what_exits_when_read": "return type('M', (dict,), dict(items=lambda s: sys.exit(1)))()",
    "returns_a_memmap_of_nothing": """
        import tempfile
        file = tempfile.NamedTemporaryFile(); file.truncate(T * S)
        found = np.memmap(file.name, bool, 'r+', shape=(T, S)); os.truncate(file.name, 0)
        return found
    """,
    "environment": "os.environ.clear()",
    "settings": "sys.setrecursionlimit(60); np.seterr(all='raise')",
    "locale_and_mask": "import locale; locale.setlocale(locale.LC_ALL, 'C'); os.umask(0o777)",
    "floods_stdout_for_ever": "while True: os.write(1, b'x' * 2**16)",
    "floods_stderr_from_a_child": """
        subprocess.Popen([sys.executable, '-c', "while True: print('x' * 4096)"], stdout=2, env={})
    """,
    "deletes_the_reports": "import shutil; shutil.rmtree('out', ignore_errors=True)",
    "deletes_its_directory": """
        import shutil
        for name in os.listdir('.'):
            if os.path.isdir(name): shutil.rmtree(name, True)
            elif name != 'good.py': os.remove(name)
    """,
    "puts_a_link_in_place_of_the_reports": """
        os.mkdir('elsewhere'); os.rename('out', 'moved'); os.symlink('elsewhere', 'out')
    """,
    "links_the_report_to_a_file": """
        for file in ('report.json', 'index.md', 'M1.md', 'records.jsonl'):
            for home in ('out/good', 'out/links_the_report_to_a_file'):
                os.path.exists(f'{home}/{file}') and os.remove(f'{home}/{file}')
                os.symlink(os.path.abspath('good.py'), f'{home}/{file}')
    """,
    "fills_the_reports": """
        for home in ('out/good', '.'):
            for file in ('report.json', 'index.md', 'M1.md', 'badges', 'repro'):
                try: os.mkdir(f'{home}/{file}')
                except OSError: pass
    """,
    "writes_into_the_records": """
        with open('out/good/records.jsonl', 'a') as file: file.write('{"verdict": "pass"}\\n' * 99)
    """,
    "takes_the_lock": """
        import fcntl
        held = open('out/good/run.lock', 'w'); fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    """,
    "leaves_modules_in_its_directory": """
        for name in ('attest', 'numpy', 'json', 'pytest', 'sitecustomize', 'usercustomize', 'conftest'):
            open(name + '.py', 'w').write('import os; os._exit(9)')
        open('pytest.ini', 'w').write('[pytest]\\naddopts = --no-such-option')
        sys.exit(1)
    """,
    "scribbles_over_shared_memory": """
        import mmap
        held = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.size >= 2**30]
        def scribble():
            while True:
                for memory in held: memory[: 2**12] = 255; memory[2**30 : 2**30 + 2**12] = 255
        threading.Thread(target=scribble, daemon=True).start()
    """,
    "a_child_without_session_or_environment": """
        subprocess.Popen(['sleep', '600'], env={}, start_new_session=True)
    """,
    "a_grandchild_of_nobody": """
        if not os.fork():
            os.setsid()
            if not os.fork(): os.execve('/bin/sleep', ['sleep', '600'], {})
            os._exit(0)
    """,
    "stops_its_children_and_itself": """
        os.fork() or os.kill(os.getpid(), signal.SIGSTOP); os.kill(os.getpid(), signal.SIGSTOP)
    """,
    "closes_its_seal": "os.closerange(3, 64); time.sleep(600)",
    "returns_records": "return np.zeros((T, S), [('a', bool), ('b', object)])",
    "returns_times": "return np.zeros((T, S), 'M8[s]')",
    "returns_texts": "return np.full((T, S), 'True')",
    "returns_zero_strides": "return np.lib.stride_tricks.as_strided(np.ones(1, bool), (T, S), (0, 0))",
    "returns_negative_strides": "return np.tri(T, S, S - T, dtype=bool)[::-1, ::-1][::-1, ::-1]",
    "returns_strides_beyond": """
        return np.lib.stride_tricks.as_strided(np.ones(1, bool), (T, S), (2**40, -2**40))
    """,
    "returns_what_another_thread_shrinks": """
        mask = np.tri(T, S, S - T, dtype=bool)
        def resize():
            while True:
                try: mask.resize((1, 1), refcheck=False); mask.resize((T, S), refcheck=False)
                except BaseException: pass
        threading.Thread(target=resize, daemon=True).start()
        return mask
    """,
    "cannot_be_scheduled": "os.nice(19); os.sched_setaffinity(0, {0})",
    "limits_everything": """
        for name in ('CPU', 'FSIZE', 'DATA', 'STACK', 'CORE', 'NOFILE', 'AS'):
            try: resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (1, 1))
            except (OSError, ValueError): pass
    """,
    "forks_and_both_go_on": "vars(sys).setdefault('forked', []) or sys.forked.append(os.fork())",
    "hears_no_signal": """
        for number in set(range(1, 65)) - {9, 19, 32, 33}: signal.signal(number, lambda *_: None)
        while True: time.sleep(1)
    """,
    "a_signal_raises_anywhere": """
        signal.signal(signal.SIGVTALRM, lambda *_: 1 / 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)
    """,
    "a_thread_raises_anywhere": """
        main, error = ctypes.c_ulong(threading.main_thread().ident), ctypes.py_object(ValueError)
        def interrupt():
            while True: time.sleep(0.001); ctypes.pythonapi.PyThreadState_SetAsyncExc(main, error)
        threading.Thread(target=interrupt, daemon=True).start()
    """,
    "an_audit_hook_raises": "sys.addaudithook(lambda *_: 1 / 0)",
    "an_audit_hook_exits": "sys.addaudithook(lambda *_: os._exit(0))",
    "a_watchdog_exits": "import faulthandler; faulthandler.dump_traceback_later(0.05, exit=True)",
    "patches_random": """
        import random
        random.Random.random = random.Random.getrandbits = random.random = lambda *_: 0
    """,
    "patches_hypothesis": """
        from hypothesis.internal.conjecture import engine
        engine.ConjectureRunner.run = engine.ConjectureRunner.test_function = lambda *_: 1 / 0
    """,
    "patches_classes_of_the_contract": """
        from attest.contract import Config
        Config.__hash__ = Config.__eq__ = Config.__repr__ = lambda *_: 1 / 0
    """,
    "patches_the_boundary": """
        import attest.boundary.arrays as arrays
        arrays.array_of = arrays.aligned = lambda *_: 1 / 0
    """,
    "patches_dataclasses": "import dataclasses; dataclasses.replace = dataclasses.fields = lambda *_: 1 / 0",
    "prints_arrays_by_exiting": """
        np.set_printoptions(formatter={'all': lambda x: sys.exit(5)}); np.seterrcall(sys.exit)
    """,
    "holds_the_import_lock": """
        import _imp
        threading.Thread(target=lambda: (_imp.acquire_lock(), time.sleep(600)), daemon=True).start()
    """,
    "limits_its_parent": "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))",
    "limits_the_memory_of_its_parent": "resource.prlimit(os.getppid(), resource.RLIMIT_AS, (2**20, 2**20))",
    "exception_with_an_endless_name": "raise type('\\x1b[2J' * 10**6, (Exception,), {})",
    "exception_that_is_its_own_cause": """
        error = ValueError('x'); error.__cause__ = error.__context__ = error
        raise error
    """,
    "exception_that_lies_about_its_class": """
        raise type('Lie', (Exception,), {'__class__': property(lambda self: KeyboardInterrupt)})
    """,
    "exception_with_a_text_that_is_none": "raise type('Odd', (Exception,), {'__str__': lambda self: 7})",
    "floods_its_pipes": """
        for fd in range(3, 20):
            try: os.set_blocking(fd, False); os.write(fd, b'\\xff' * 2**20)
            except OSError: pass
    """,
    "writes_endless_lists_into_its_pipes": """
        for fd in range(3, 20):
            try: os.set_blocking(fd, False); os.write(fd, b'\\xff\\xff\\xff\\x03' + b'[' * 2**15 + b'\\n')
            except OSError: pass
    """,
    "spoils_none": "ctypes.memset(id(None), 0, 16)",
    "turns_true_into_false": "ctypes.memmove(id(True) + 16, id(False) + 16, 12)",
    "returns_memory_that_a_child_changes": """
        import mmap
        shared = mmap.mmap(-1, T * S); mask = np.frombuffer(shared, bool).reshape(T, S)
        if not os.fork():
            while True: mask[...] = ~mask
        return mask
    """,
    "answers_depend_on_the_process": "return np.full((T, S), os.getpid() % 2 == 0)",
    "makes_every_dictionary_ordered_anew": "sys.intern = hash = id = None; gc.set_threshold(1, 1, 1)",
    "switches_never": "sys.setswitchinterval(1e9)",
    "switches_collecting_off": "gc.disable(); gc.freeze()",
}  # fmt: skip


@dataclass(frozen=True)
class Plugin:
    """Name and text of a hostile plugin, and the criteria it is judged by."""

    name: str
    text: str
    criteria: tuple[str, ...] = CRITERIA


def plugin(name: str, **lines: str) -> str:
    """The text of a plugin with these lines in their places."""
    blank = {"top": "", "declared": "pass", "body": "pass", "hook": "pass"}
    depths = {"top": 0, "declared": 4, "body": 8, "hook": 4}
    text = PLUGIN
    for place, line in {**blank, **lines}.items():
        shown = textwrap.indent(textwrap.dedent(line).strip(), " " * depths[place]).strip()
        text = text.replace(f"{{{place}}}", shown)
    return text.replace("{name}", name)


def plugins() -> Iterator[Plugin]:
    """Every hostile plugin."""
    places: Mapping[str, Mapping[str, str]] = {
        "body": BODIES | SURROUNDINGS | ANSWERS, "declared": DECLARED, "hook": HOOKS, "top": TOPS,
    }  # fmt: skip
    for place, found in places.items():
        for name, line in found.items():
            yield Plugin(name, plugin(name, **{place: line}))
    outputs = {name: f"return lambda q, k, v, **_: {line.strip()}" for name, line in OUTPUTS.items()}
    for name, line in (BUILDERS | outputs).items():
        builder = f"def attention(self, config):\n    {line}"
        yield Plugin(name, plugin(name, declared=builder), ("M1.2", "M1.4b", "M1.5a"))
