"""Hostile bodies that change what they run in: the interpreter, numpy, the C library, the kernel's settings.

Each is the beginning of a correct `causal_mask` (see `plugins.py`), so what follows it is judged too.
"""

SURROUNDINGS = {
    "aborts_at_fork": "os.register_at_fork(before=os.abort, after_in_child=os.abort)",
    "forks_at_every_fork": "os.register_at_fork(after_in_child=lambda: time.sleep(600))",
    "a_hundred_exit_handlers": """
        for _ in range(100): atexit.register(time.sleep, 600)
        threading._register_atexit(time.sleep, 600)
    """,
    "profiles_slowly": "sys.setprofile(lambda *_: time.sleep(0.01))",
    "traces_by_exiting": "threading.settrace(lambda *_: os._exit(3)); sys.settrace(lambda *_: sys.exit(3))",
    "monitors_by_raising": """
        if hasattr(sys, 'monitoring'):
            sys.monitoring.use_tool_id(1, 'x'); sys.monitoring.set_events(1, 1)
            sys.monitoring.register_callback(1, 1, lambda *_: 1 / 0)
    """,
    "hooks_that_never_return": """
        sys.excepthook = sys.unraisablehook = threading.excepthook = lambda *_: time.sleep(600)
        sys.displayhook = sys.breakpointhook = lambda *_: time.sleep(600)
        threading.Thread(target=lambda: 1 / 0).start()
    """,
    "warnings_are_errors_for_ever": """
        import warnings
        warnings.resetwarnings(); warnings.simplefilter('error')
        warnings.catch_warnings.__exit__ = lambda *_: None
        warnings.warn('x')
    """,
    "another_place_and_time": """
        import locale
        os.environ.update(TZ='Nowhere+25', LC_ALL='tr_TR.UTF-8', PYTHONHASHSEED='7', OMP_NUM_THREADS='64')
        time.tzset()
        for name in ('tr_TR.UTF-8', 'de_DE.UTF-8', 'C.UTF-8'):
            try: locale.setlocale(locale.LC_ALL, name)
            except locale.Error: pass
    """,
    "environment_that_stops_every_python": """
        os.environ.update(PYTHONHOME='/nowhere', LD_PRELOAD='/nowhere.so', PYTHONHASHSEED='no number',
                          ATTEST_RUN='x', PYTHONPATH='/nowhere', PYTHONSTARTUP='/nowhere')
    """,
    "one_digit_of_everything": """
        import decimal, fractions
        decimal.getcontext().prec = 1; decimal.getcontext().traps[decimal.Inexact] = True
        np.set_printoptions(precision=0, threshold=0, edgeitems=0, formatter={'all': lambda x: 1 / 0})
        sys.set_int_max_str_digits(640); sys.float_repr_style = 'legacy'
    """,
    "numpy_raises_at_every_rounding": """
        np.seterr(all='call'); np.seterrcall(lambda *_: 1 / 0); np.setbufsize(16)
    """,
    "rounds_upwards": "ctypes.CDLL('libm.so.6').fesetround(0x800)",
    "rounds_towards_zero": "ctypes.CDLL('libm.so.6').fesetround(0xC00)",
    "flushes_small_numbers": """
        libm, held = ctypes.CDLL('libm.so.6'), (ctypes.c_uint32 * 64)()
        libm.fegetenv(held); held[7] |= 0x8040; libm.fesetenv(held)
    """,
    "traps_every_rounding": "ctypes.CDLL('libm.so.6').feenableexcept(0x3D); 1.0 / 3.0",
    "a_million_frames": """
        sys.setrecursionlimit(10**6)
        def deeper(n): return deeper(n + 1) + 1
        deeper(0)
    """,
    "a_small_stack": "threading.stack_size(32768); threading.Thread(target=lambda: [0] * 9).start()",
    "an_alarm_that_kills": "signal.signal(signal.SIGALRM, signal.SIG_DFL); signal.alarm(1); time.sleep(600)",
    "an_alarm_every_moment": """
        signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    """,
    "processor_timers": """
        signal.signal(signal.SIGPROF, lambda *_: sys.exit(5))
        signal.setitimer(signal.ITIMER_PROF, 1e-2, 1e-2)
    """,
    "wakes_up_into_the_records": """
        for fd in range(3, 20):
            try: os.set_blocking(fd, False); signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
            except (OSError, ValueError): pass
        signal.signal(signal.SIGUSR1, lambda *_: None); os.kill(os.getpid(), signal.SIGUSR1)
    """,
    "descriptors_that_do_not_wait": """
        for fd in range(64):
            try: os.set_blocking(fd, False)
            except OSError: pass
    """,
    "descriptors_that_send_signals": """
        import fcntl
        for fd in range(64):
            try:
                fcntl.fcntl(fd, fcntl.F_SETOWN, os.getppid()); fcntl.fcntl(fd, 10, signal.SIGTERM)
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
            except OSError: pass
    """,
    "pipes_of_one_page": """
        import fcntl
        for fd in range(64):
            try: fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
            except OSError: pass
    """,
    "dumps_its_stack_for_ever": """
        import faulthandler
        faulthandler.enable(); faulthandler.dump_traceback_later(0.01, repeat=True, file=2)
        faulthandler.register(signal.SIGTERM, chain=False)
    """,
    "debugs_the_collector": "gc.set_debug(gc.DEBUG_LEAK | gc.DEBUG_STATS); gc.set_threshold(1, 1, 1)",
    "counts_every_allocation": "import tracemalloc; tracemalloc.start(50)",
    "asks_for_a_debugger": "breakpoint()",
    "gives_the_lock_away": "ctypes.pythonapi.PyEval_SaveThread()",
    "ends_the_interpreter": "ctypes.pythonapi.Py_FinalizeEx()",
    "has_no_use_for_none": "[ctypes.pythonapi.Py_DecRef(ctypes.py_object(None)) for _ in range(10**6)]",
    "survives_its_parent": """
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        try: os.kill(os.getppid(), 9)
        except OSError: pass
        time.sleep(600)
    """,
    "cannot_be_looked_at": "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.fork() or time.sleep(600)",
    "keeps_its_orphans": """
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        if not os.fork():
            os.setsid()
            if not os.fork(): time.sleep(600)
            os._exit(0)
    """,
    "may_only_read_and_write": "ctypes.CDLL(None).prctl(22, 1, 0, 0, 0)",
    "kills_its_grandparent": """
        parent = open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]
        os.kill(int(parent), 9) if int(parent) > 1 else None
    """,
    "numbers_of_one_kind": """
        import builtins
        builtins.round = builtins.abs = builtins.max = builtins.min = lambda *_, **__: 0
        builtins.sorted = builtins.list = lambda *_, **__: []
    """,
    "everything_is_everything": """
        import builtins
        builtins.isinstance = builtins.issubclass = builtins.hasattr = builtins.callable = lambda *_: True
    """,
    "all_lengths_are_one": "import builtins; builtins.len = builtins.hash = builtins.id = lambda *_: 1",
    "patches_what_makes_records": """
        import hashlib, random, struct, json
        hashlib.blake2b = hashlib.sha256 = struct.pack = random.Random = random.seed = None
        json.JSONEncoder.encode = json.JSONDecoder.decode = json.encoder.c_make_encoder = None
        struct.Struct.pack = None if isinstance(struct.Struct, dict) else 0
    """,
    "patches_clocks_and_sleeps": """
        time.time = time.process_time = time.monotonic = lambda *_: 0.0
        time.sleep = threading.Event.wait = lambda *_: True
    """,
    "modules_of_nothing": """
        for name in list(sys.modules):
            if name.startswith(('attest', 'numpy', 'hypothesis', 'json')):
                sys.modules[name] = type(sys)(name)
    """,
    "imports_that_hang": """
        sys.meta_path.insert(0, type('Finder', (), dict(find_spec=lambda *_: time.sleep(600)))())
        import no_such_module_at_all
    """,
    "imports_that_raise": """
        sys.meta_path.insert(0, type('Finder', (), dict(find_spec=lambda *_: 1 / 0))())
        sys.path_hooks[:] = [lambda path: 1 / 0]; sys.path_importer_cache.clear()
    """,
    "logs_by_exiting": """
        import logging
        logging.Handler.emit = logging.Handler.handle = lambda *_: sys.exit(3)
        logging.getLogger().addHandler(logging.Handler()); logging.getLogger().setLevel(0)
        logging.lastResort = None; logging.raiseExceptions = True
        logging.getLogger('hypothesis').error('x')
    """,
    "logs_without_measure": """
        import logging
        for _ in range(10**5): logging.error('x' * 1000)
    """,
    "settings_of_hypothesis": """
        import hypothesis
        hypothesis.settings.register_profile('x', max_examples=1, deadline=1, phases=())
        hypothesis.settings.load_profile('x')
    """,
    "another_executable": "sys.executable = '/bin/false'; sys.argv[:] = []; sys.prefix = '/nowhere'",
    "interrupts_the_main_thread": """
        import _thread
        def interrupt():
            while True: time.sleep(0.01); _thread.interrupt_main(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=interrupt, daemon=True).start()
    """,
    "exits_later": "threading.Timer(0.5, os._exit, (0,)).start()",
    "fills_its_scratch": """
        import tempfile
        with tempfile.NamedTemporaryFile(delete=False) as file: file.truncate(2**40); file.write(b'x' * 2**20)
    """,
    "removes_its_scratch": """
        import shutil, tempfile
        shutil.rmtree(tempfile.gettempdir(), ignore_errors=True) if 'attest' in tempfile.gettempdir() else 0
    """,
}  # fmt: skip
