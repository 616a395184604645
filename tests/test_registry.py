"""What --impl understands and refuses; each refusal is one sentence."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from attest.declared import misdeclared
from attest.registry import (
    BrokenPlugin,
    UsageError,
    load,
    offered,
    parse_request,
    printable,
    registered_names,
)

GOOD = """
class Mine:
    name = {name!r}
    def causal_mask(self, T, S): ...
def attest_implementations():
    return [Mine()]
def make():
    return Mine()
"""


def plugin(tmp_path: Path, text: str, name: str = "plugin.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_our_implementations_are_registered_like_anyones():
    assert {"eager", "compiled", "numpy_scratch", "torch_nn"} <= set(registered_names())


def test_a_file_is_loaded_and_its_operations_are_seen(tmp_path):
    [found] = load(parse_request(plugin(tmp_path, GOOD.format(name="mine"))))
    assert (found.name, offered(found)) == ("mine", ["causal_mask"])


def test_a_marked_hook_is_called_through_pluggy(tmp_path):
    text = GOOD.format(name="mine").replace(
        "def attest", "import pluggy\n@pluggy.HookimplMarker('attest')\ndef attest"
    )
    assert [i.name for i in load(parse_request(plugin(tmp_path, text)))] == ["mine"]


def test_a_factory_may_return_one_object(tmp_path):
    [found] = load(parse_request(plugin(tmp_path, GOOD.format(name="mine")) + ":make"))
    assert found.name == "mine"


def test_options_after_a_comma_reach_the_implementation(tmp_path):
    path = plugin(tmp_path, GOOD.format(name="mine"))
    request = parse_request(f"{path},dtype=float64,blocks=4")
    assert request.options == (("dtype", "float64"), ("blocks", "4"))
    assert load(request)[0].options == (("blocks", "4"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("eagr", "--impl=eagr is not a registered implementation; did you mean eager?"),
        ("", "--impl='' names nothing; use one of"),
        (" ,dtype=float64", "names nothing"),
        ("zzzzzz", "is not a registered implementation; use one of"),
        ("no/such/file.py", "--impl=no/such/file.py does not exist; check the path"),
        (
            "eager,window=0",
            "option window='0' is a field of the config, which cases draw and --impl cannot set; leave",
        ),
        ("eager,dtype", "has the option 'dtype'; write options as name=value after a comma"),
        ("a\x1b[31mb", r"--impl=a\x1b[31mb is not a registered implementation"),
    ],
)
def test_requests_that_name_nothing(text, sentence):
    with pytest.raises(UsageError) as caught:
        parse_request(text)
    assert sentence in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_directory_and_another_kind_of_file(tmp_path):
    with pytest.raises(UsageError, match="is a directory; name a Python file in it"):
        parse_request(f"{tmp_path}/")
    notes = plugin(tmp_path, "", "notes.txt")
    with pytest.raises(UsageError, match="is not a Python file; name a file"):
        parse_request(notes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "import no_such_module",
            "cannot be imported (ModuleNotFoundError: No module",
        ),
        ("def (", "cannot be imported (SyntaxError"),
        ("import sys; sys.exit(4)", "cannot be imported (SystemExit: 4)"),
        ("x = 1", "has no function attest_implementations(); add one that returns a list"),
        ("def attest_implementations(): return None", "returned None; return a list of implementations"),
        ("def attest_implementations(): return []", "returned an empty list; return at least one"),
        (
            GOOD.format(name="one").replace("[Mine()]", "Mine()"),
            "attest_implementations() returned one object (Mine); return a list",
        ),
        ("def attest_implementations(): return [object()]", "(object) has no name; give it a string `name`"),
        (GOOD.format(name="a/b"), "name='a/b' cannot name a report; use letters"),
        (GOOD.format(name="\x1b[31mred"), r"name='\x1b[31mred' cannot name a report"),
        (GOOD.format(name=""), "name='' cannot name a report"),
        (
            "def attest_implementations(): raise RuntimeError('no weights\\nhere')",
            "making the implementations raised RuntimeError: no weights here",
        ),
        (
            "def attest_implementations(): return type('L', (list,), {'__iter__': int})([1])",
            "reading the list of implementations raised TypeError: iter() returned non-iterator",
        ),
        (
            GOOD.format(name="one").replace("name = 'one'", 'name = "one"; packages = ("numpy", 7)'),
            "packages=('numpy', 7) is not a list of words",
        ),
        (
            GOOD.format(name="one").replace("name = 'one'", 'name = "one"; packages = ("x\\x1b[2J",)'),
            "which is no package; write it as pip has it",
        ),
        ("def attest_implementations(): return [][0]", "raised IndexError: list index out of range"),
        (
            "import pluggy\n@pluggy.HookimplMarker('attest')\ndef attest_implementations(config): return []",
            "attest_implementations has another signature",
        ),
        (
            "import pluggy\n@pluggy.HookimplMarker('attest')\ndef attest_implementations(): return None",
            "returned None; return a list of implementations",
        ),
    ],
)
def test_broken_plugins(tmp_path, text, sentence):
    with pytest.raises(BrokenPlugin) as caught:
        load(parse_request(plugin(tmp_path, text)))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"window": (0,)}, "supports['window'] has 0; use some of 1, 2, 3, 5"),
        ({"window": (True,)}, "supports['window'] has True; use some of 1, 2, 3, 5"),
        ({"num_kv_heads": (-1,)}, "supports['num_kv_heads'] has -1; use some of 1, 2, 3"),
        ({"rotary_fraction": (1.5,)}, "supports['rotary_fraction'] has 1.5; use some of 1.0, 0.5"),
        ({"rotary_base": (0,)}, "supports['rotary_base'] has 0; use some of 10000.0, 500000.0, 100.0"),
        ({"segments": (2.5,)}, "supports['segments'] has 2.5; use some of 0, 2"),
        ({"positions": ("rope",)}, "supports['positions'] has 'rope'; use some of 'sinusoidal', 'learned'"),
        ({"positions": "rotary"}, "supports['positions']='rotary' is not a list of values"),
        ({"windows": (3,)}, "supports names 'windows', which is not an option; did you mean window?"),
    ],
)
def test_claims_that_make_no_sense(declared, sentence):
    assert sentence in misdeclared(SimpleNamespace(name="mine", supports=declared))
    assert (
        misdeclared(SimpleNamespace(name="mine", supports={"window": (1, 2), "rotary_fraction": (1, 0.25)}))
        == ""
    )


def test_an_unknown_factory(tmp_path):
    with pytest.raises(BrokenPlugin, match="has no function 'nope'; name one it has"):
        load(parse_request(plugin(tmp_path, GOOD.format(name="mine")) + ":nope"))


def test_an_unknown_module():
    with pytest.raises(UsageError, match="names a module that is not installed; check its name"):
        parse_request("no_such_package.module:make")
    with pytest.raises(BrokenPlugin, match="cannot be imported"):
        load(parse_request("attest.no_such_module:make"))


def test_printable_shows_control_characters():
    assert printable("a\x1b[2J\n") == r"a\x1b[2J\n"
