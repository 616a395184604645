"""Hostile declarations, hooks, imports and builders: what a plugin says and does before it is asked anything.

Each is one piece of an otherwise correct plugin (see `plugins.py`).
"""

DECLARED = {
    "dtypes_text": "dtypes = 'float32'",
    "dtypes_unknown": "dtypes = ('float8',)",
    "known_failures_words": "known_failures = ['M1.5a']",
    "known_failure_number": "known_failures = [type('K', (), dict(criterion='M1.5a', reason=5))]",
    "known_failures_endless": "known_failures = itertools.repeat(1)",
    "wider_1e300": "wider_bounds = {'attention': 1e300}",
    "wider_inf": "wider_bounds = {'attention': float('inf')}",
    "wider_text": "wider_bounds = 'wide'",
    "options_number": "options = 7",
    "policy": "shape_policy = type('P', (), dict(min_size='x'))",
    "supports_number": "supports = 7",
    "claims_endless": "only = {'norm': 'x' * 10**7}",
    "property_raises": "dtypes = property(lambda self: 1 / 0)",
    "property_exits": "dtypes = property(lambda self: os._exit(0))",
    "attributes_raise": "__getattr__ = lambda self, name: sys.exit(1)",
    "attributes_all": "__getattr__ = lambda self, name: (lambda *_: 1 / 0)",
    "description_endless": "description = 'x\\x1b' * 10**7",
    "name_escape": "name = '\\x1b[31mred'",
    "name_path": "name = '../../x'",
    "name_changes": "name = property(lambda self: f'n{time.monotonic_ns()}')",
    "dtypes_without_end": """
        dtypes = type('T', (tuple,), {'__iter__': lambda s: itertools.repeat('float32')})(('float32',))
    """,
    "dtypes_that_lie": "dtypes = type('T', (tuple,), {'__class__': property(int)})(('float32',))",
    "supports_without_end": "supports = {'norm': itertools.count()}",
    "only_without_end": "only = {'norm': [f'n{i}' for i in range(10**6)]}",
    "families_without_end": "families = {'llama': {'tie': itertools.repeat(True)}}",
    "packages_without_end": "packages = itertools.repeat('numpy')",
    "packages_with_escapes": "packages = ('\\x1b[2J', 7, '../' * 10**6)",
    "padding_number": "padding = 7",
    "computes_lists": "computes = {'float64': ['x']}",
    "policy_beyond": "shape_policy = type('P', (), dict(min_size=10**12, one_config=7, always_mask=7))()",
    "options_that_raise": "options = type('O', (tuple,), {'__iter__': int})()",
    "known_failure_without_end": """
        known_failures = [type('K', (), dict(
            criterion='M1.5a', reason='x\\x1b' * 10**7, link='javascript:x', witness='[' * 10**6))]
    """,
    "description_raises_in_c": "description = type('D', (str,), {'__str__': int})('x')",
    "name_that_is_another": "name = type('N', (str,), {'__eq__': lambda *_: True, '__str__': int})('x')",
}
HOOKS = {
    "hook_index_error": "[][0]",
    "hook_none": "return None",
    "hook_exit": "os._exit(3)",
    "hook_interrupt": "raise KeyboardInterrupt",
    "hook_hang_thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "hook_endless": "return (Subject() for _ in itertools.count())",
    "hook_repeats_itself": "return [Subject()] * 9",
    "hook_reads_input": "input('your name? ')",
    "hook_yields": "yield Subject()",
    "hook_lists_in_lists": "return [[[Subject()]]]",
    "hook_exits_later": "threading.Timer(1, os._exit, (0,)).start()",
    "hook_of_another_process": "Subject.name = f'n{os.getpid()}'",
    "hook_returns_a_list_that_raises": "return type('L', (list,), {'__iter__': int})([Subject()])",
}
TOPS = {
    "import_crash": "import os; os.kill(os.getpid(), 11)",
    "import_no_utf8": "import sys; sys.stdout.buffer.write(b'\\xff'); sys.stderr.buffer.write(b'\\xff')",
    "import_forges_probe": "print('attest-probe {')",
    "import_missing": "import no_such_module",
    "import_syntax": "def (",
    "import_null": "\x00",
    "import_base_exception": "raise type('Odd', (BaseException,), dict())",
    "import_replaces_its_module": "import sys; sys.modules[__name__] = None",
    "import_hooks_imports": "import builtins; builtins.__import__ = lambda *_, **__: 1 / 0",
    "import_forks": "import os; os.fork()",
    "import_exits_later": "import os, threading; threading.Timer(1, os._exit, (0,)).start()",
    "import_traces": "import sys; sys.settrace(lambda *_: 1 / 0)",
    "import_without_limits": "import sys; sys.setrecursionlimit(10**9)",
    "import_without_signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "import_nested": f"x = {'(' * 10_000}",
    "import_in_another_encoding": "# coding: no-such-encoding",
    "import_hides_itself": """
        import sys; sys.modules[__name__].__class__ = type('M', (type(sys),), {'__getattr__': int})
    """,
    "import_warns_for_ever": "import warnings; warnings.showwarning = lambda *_: 1 / 0; warnings.warn('x')",
}
BUILDERS = {
    "changes_its_config": "object.__setattr__(config, 'd_model', -1); return lambda **_: {}",
    "config_without_fields": "config.__dict__.clear(); return lambda **_: {}",
    "component_exits_when_asked": "return type('C', (), {'__getattribute__': lambda *_: os._exit(4)})()",
    "component_is_a_class": "return BaseException",
}
