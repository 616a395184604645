"""Hostile bodies whose harm is in what comes back: exceptions and results that are not what they look like.

Each is the beginning of `causal_mask` (see `plugins.py`).
"""

ANSWERS = {
    "exception_whose_text_never_ends": """
        def text(self):
            while True: pass
        raise type('Slow', (Exception,), {'__str__': text})
    """,
    "exception_whose_text_overflows": """
        nested = []
        for _ in range(10**6): nested = [nested]
        sys.setrecursionlimit(10**9)
        raise ValueError(nested)
    """,
    "exception_with_a_hundred_thousand_causes": """
        error = None
        for number in range(10**5):
            last, error = error, ValueError(number)
            error.__cause__ = last
        raise error
    """,
    "exception_groups_in_groups": """
        error = ValueError('x')
        for _ in range(10**5): error = ExceptionGroup('x', [error])
        raise error
    """,
    "exception_with_endless_notes": """
        error = ValueError('x'); error.__notes__ = ['\\x1b[2J' * 10**6] * 20
        raise error
    """,
    "exception_whose_notes_are_none": """
        error = ValueError('x'); error.__notes__ = type('N', (), {'__iter__': int})()
        raise error
    """,
    "exception_whose_class_has_no_name": """
        kind = type('Kind', (type,), {'__name__': property(lambda self: 1 / 0)})
        raise kind('Nameless', (Exception,), {})
    """,
    "exception_whose_class_has_a_number_for_a_name": """
        kind = type('Kind', (type,), {'__name__': 7, '__module__': 7, '__mro__': 7, '__qualname__': 7})
        raise kind('Numbered', (Exception,), {'__module__': 7})
    """,
    "exception_whose_name_is_refused_by_c": """
        kind = type('Kind', (type,), {'__name__': property(int)})
        raise kind('Refused', (Exception,), {})
    """,
    "exception_whose_name_is_endless_lines": """
        kind = type('Kind', (type,), {'__name__': property(lambda self: '\\n\\udcff\\u202e' * 10**6)})
        raise kind('Long', (Exception,), {})
    """,
    "exception_whose_class_exits": """
        kind = type('Kind', (type,), {'__name__': property(lambda self: os._exit(0))})
        raise kind('Exits', (Exception,), {})
    """,
    "exception_of_a_number_without_digits": "raise ValueError(10**100_000)",
    "exception_of_bytes": "raise UnicodeDecodeError('utf-8', b'\\xff' * 10**6, 0, 1, 'x' * 10**6)",
    "exception_that_cannot_be_copied": """
        raise type('Stuck', (Exception,), {'__reduce__': lambda s: 1 / 0, '__deepcopy__': lambda *_: 1 / 0})
    """,
    "exception_that_will_not_be_held": """
        def refuse(self, name, value): os._exit(6)
        raise type('Untouchable', (Exception,), {'__setattr__': refuse})
    """,
    "stop_iteration": "raise StopIteration",
    "stop_async_iteration": "raise StopAsyncIteration",
    "assertion": "assert False, 'x' * 10**7",
    "warns_with_a_class_of_its_own": """
        import warnings
        kind = type('W', (Warning,), {'__str__': lambda self: sys.exit(2)})
        warnings.simplefilter('always'); warnings.warn(kind()); warnings.warn_explicit(kind(), kind, 'x', 7)
    """,
    "raises_a_violation": "from attest.outcomes import Violation; raise Violation('\\x1b[2J' * 10**6)",
    "raises_not_claimed": "from attest.outcomes import NotClaimed; raise NotClaimed(7)",
    "raises_an_end": "from attest.outcomes import Ended; raise Ended('by itself')",
    "refuses_endlessly": "raise NotImplementedError('\\x1b]0;owned\\x07' * 10**6)",
    "returns_no_dimensions": "return np.array(True)",
    "returns_sixty_four_dimensions": "return np.ones((1,) * 64, bool)",
    "returns_nothing_of_much": "return np.empty((0, T, S, 2**40), bool)",
    "returns_a_quarter_of_a_gigabyte": "return np.zeros((2**14, 2**14), bool)",
    "returns_more_than_is_shared": "return np.broadcast_to(np.ones(1), (2**27, 2**4))",
    "returns_a_generator": "return (row for row in np.tri(T, S, S - T, dtype=bool))",
    "returns_an_endless_iterator": "return itertools.repeat(np.tri(T, S, S - T, dtype=bool))",
    "returns_a_mapped_file": """
        import tempfile
        mask = np.memmap(tempfile.NamedTemporaryFile(), bool, 'w+', shape=(T, S))
        mask[...] = np.tri(T, S, S - T, dtype=bool)
        return mask
    """,
    "returns_a_mapped_file_that_shrinks": """
        import tempfile
        file = tempfile.NamedTemporaryFile(delete=False); file.truncate(2**20)
        whole = np.memmap(file.name, bool, 'r+', shape=(2**10, 2**10))
        threading.Timer(1e-4, os.truncate, (file.name, 0)).start()
        return whole
    """,
    "returns_masked_arrays": "return np.ma.masked_all((T, S), bool)",
    "returns_a_matrix": "return np.asmatrix(np.tri(T, S, S - T, dtype=bool))",
    "returns_numbers_for_truth": "return np.full((T, S), np.nan)",
    "returns_other_ends": "return np.tri(T, S, S - T, dtype='>i8')",
    "returns_half_numbers": "return np.tri(T, S, S - T, dtype=np.float16)",
    "returns_long_numbers": "return np.tri(T, S, S - T, dtype=np.longdouble)",
    "returns_truth_that_is_two": "return (np.tri(T, S, S - T, dtype=np.uint8) * 2).view(bool)",
    "returns_an_array_that_watches": """
        def watch(self, *_, **__): os._exit(7)
        names = ('__array_finalize__', '__array_wrap__', '__array_ufunc__', '__array_function__', '__del__')
        mask = np.tri(T, S, S - T, dtype=bool)
        kind = type('Watcher', (np.ndarray,), dict.fromkeys(names[1:], watch))
        mask = mask.view(kind); kind.__array_finalize__ = watch
        return mask
    """,
    "returns_an_array_that_raises_in_c": """
        names = ('__array_finalize__', '__class__')
        kind = type('Stubborn', (np.ndarray,), dict.fromkeys(names, property(int)))
        return np.ndarray.__new__(np.ndarray, (T, S), bool).view(kind)
    """,
    "returns_what_has_no_class": "return type('X', (), {'__class__': property(lambda self: 1 / 0)})()",
    "returns_what_c_cannot_look_at": "return type('X', (), {'__class__': property(int)})()",
    "returns_what_claims_to_be_an_array": "return type('X', (), {'__class__': np.ndarray})()",
    "returns_what_hashes_by_exiting": """
        return type('X', (), {'__hash__': lambda s: os._exit(1), '__eq__': lambda *_: os._exit(1)})()
    """,
    "returns_what_unpickles_into_a_command": """
        return type('P', (), {'__reduce__': lambda self: (os.system, ('touch owned',))})()
    """,
    "returns_an_endless_number": "return 1 << 10**7",
    "returns_a_scalar_of_its_own": "return type('F', (np.float64,), {'__float__': lambda s: 1 / 0})(1)",
    "returns_a_class": "return np.ndarray",
    "returns_a_module": "return sys",
    "returns_an_exception": "return ValueError('x')",
    "returns_a_frame": "return sys._getframe()",
    "returns_what_was_given": "return self.causal_mask",
}  # fmt: skip
# What a component gives back in place of its outputs.
OUTPUTS = {
    "names_that_are_none": "{None: q, 7: q, (): q}",
    "names_whose_text_never_ends": """
        {type('N', (), {'__str__': lambda s: [None for _ in itertools.repeat(0)] and ''})(): q}
    """,
    "names_that_raise_in_c": "{type('N', (str,), {'__str__': int})('output'): q}",
    "names_of_escapes": "{'\\x1b[2J\\udcff' * 10**6: q}",
    "ten_thousand_names": "{f'output{i}': q for i in range(10**4)}",
    "mapping_without_end": """
        type('M', (dict,), {'items': lambda s: itertools.repeat(('output', q))})(output=q)
    """,
    "mapping_that_changes": "type('M', (dict,), {'items': lambda s: [('output', time)]})(output=q)",
    "mapping_that_lies_about_its_class": "type('M', (dict,), {'__class__': property(int)})(output=q)",
    "outputs_in_outputs": "{'output': {'output': {'output': q}}}",
    "outputs_that_are_inputs": "{'output': v, 'weights': q}",
    "outputs_that_are_one": "dict.fromkeys(('output', 'weights'), np.broadcast_to(q[..., :1, :], q.shape))",
    "outputs_backwards": "{'output': np.flip(v)[::-1], 'weights': q[..., ::-1, ::-1]}",
    "outputs_of_infinity": "{'output': np.full(q.shape, np.inf, q.dtype)}",
}
