"""Errors in the text of a schema are found in time that its length bounds, with pauses."""

from __future__ import annotations

import time

import pytest

from guided.errors import InvalidConstraintError
from guided.json_schema.reader.text import read_schema
from guided.runtime.work_budget import PauseHooks, use_pause_hooks

_CONTAINERS = "[]," * 160_000


def _seconds_and_pointer(text: str) -> tuple[float, str | None]:
    began = time.process_time()
    with pytest.raises(InvalidConstraintError) as met:
        read_schema(text)
    return time.process_time() - began, met.value.pointer


def test_errors_behind_many_containers_in_a_long_name_are_found() -> None:
    """Their pointers are of half a megabyte each, and most of the time went into those."""
    name, behind = "k" * 500_000, f'[{_CONTAINERS} 1], "a": 1, "a": 2'
    seconds, pointer = _seconds_and_pointer(f'{{"{name}": {behind}}}')
    in_short_name, _ = _seconds_and_pointer(f'{{"b": {behind}}}')
    assert pointer == ""
    assert seconds < 4 * in_short_name


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"a": [[], {"b/c": [1], "d": x', "/a/1/d"),
        ('{"a": [[], {"b/c": [1, {}, x', "/a/1/b~1c/2"),
        ('{"a": [[], {"b/c": [1], x', "/a/1"),
        ('{"a": [[], {"b": {}, "b": 1}]}', "/a/1"),
        ('{"a": {}, "a": 1}', ""),
        ("x", ""),
    ],
)
def test_errors_have_the_pointer_of_what_is_being_read(text: str, pointer: str) -> None:
    assert _seconds_and_pointer(text)[1] == pointer


def test_the_search_for_an_error_pauses() -> None:
    pauses = list[int]()
    with (
        use_pause_hooks(PauseHooks(10**9, pauses.append, lambda _: None, lambda: None)),
        pytest.raises(InvalidConstraintError, match="names the member 'a' twice"),
    ):
        read_schema(f'{{"b": [{"[]," * 10_000} 1], "a": 1, "a": 2}}')
    assert len(pauses) > 30


def test_a_long_name_that_is_given_twice_is_shown_in_part() -> None:
    name = "k" * 400_000
    with pytest.raises(InvalidConstraintError, match="twice") as met:
        read_schema(f'{{"{name}": 1, "{name}": 2}}')
    assert len(str(met.value)) < 300
