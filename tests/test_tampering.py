"""Where the harness fails beside an implementation, it is looked at what that one did."""

import dataclasses
import json
import logging
import os
import random
import sys
import threading

import pytest

from attest.contract import Config
from attest.running import tampering


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    monkeypatch.setattr(tampering, "_before", {})
    monkeypatch.setattr(tampering, "_threads_before", set())
    tampering.remember()


def said(error: BaseException | None = None) -> str:
    return tampering.tampering(error or ValueError("x"))


def test_an_error_of_ours_is_nobody_elses():
    try:
        json.loads("[")
    except ValueError as error:
        found = error.with_traceback(error.__traceback__.tb_next)  # without this file
    assert said(found) == ""


def changed(*args, **kwargs):
    return 0


@pytest.mark.parametrize(
    ("owner", "name", "where"),
    [
        (json, "dumps", "json.dumps"),
        (os, "write", "os.write"),
        (dataclasses, "replace", "dataclasses.replace"),
        (random.Random, "getrandbits", "random.Random.getrandbits"),
        (Config, "__hash__", "attest.contract.config.Config.__hash__"),
    ],
)
def test_what_it_put_in_place_of_something_is_named(monkeypatch, owner, name, where):
    monkeypatch.setattr(owner, name, changed)
    assert said() == f"the implementation changed {where}"


def test_names_that_a_library_adds_or_python_sets_are_no_tampering(monkeypatch):
    monkeypatch.setattr(logging.Logger, "advice", changed, raising=False)
    monkeypatch.setattr(sys, "last_type", KeyError, raising=False)
    assert said() == ""


def test_a_name_that_hides_an_inherited_one_is_tampering(monkeypatch):
    monkeypatch.setattr(logging.Logger, "filter", changed, raising=False)
    assert said() == "the implementation changed logging.Logger.filter"


def test_what_it_took_away_is_named(monkeypatch):
    monkeypatch.delattr(json, "loads")
    assert said() == "the implementation changed json.loads"


def test_code_of_its_own_in_the_trace_is_seen_behind_another_error():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    later = RuntimeError("a consequence")
    later.__context__ = caught.value
    assert (
        said(later) == "code of the implementation raised RuntimeError: a consequence while the harness ran"
    )


def test_a_thread_of_its_own_is_seen():
    done = threading.Event()
    thread = threading.Thread(target=lambda: done.wait(60))
    thread.start()
    try:
        assert said().endswith("was raised while a thread of the implementation ran beside the harness")
    finally:
        done.set()
        thread.join()
    assert said() == ""


def test_a_thread_that_was_there_before_is_not_the_implementations(monkeypatch):
    done = threading.Event()
    thread = threading.Thread(target=lambda: done.wait(60))
    thread.start()
    try:
        monkeypatch.setattr(tampering, "_before", {})
        tampering.remember()
        assert said() == ""
    finally:
        done.set()
        thread.join()


def test_before_an_implementation_is_loaded_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(tampering, "_before", {})
    monkeypatch.delattr(json, "loads")
    assert said() == ""
