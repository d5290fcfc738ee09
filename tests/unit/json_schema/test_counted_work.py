"""Work that grows with what a schema lists is counted, and takes memory only within its limits."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from guided.constraint.machine import machine_of
from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import (
    Items,
    JsonType,
    LaterFormulas,
    NumberChoices,
    StringChoices,
    without_first,
)
from guided.json_schema.formulas.formula import Formulas
from guided.json_schema.formulas.number_spellings import listed_numbers
from guided.json_schema.formulas.values import formula_of_value, one_of_values
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.string_automata import choices_dfa, listed_dfa
from guided.machine.recognizer import Recognizer
from guided.runtime.work_budget import PauseHooks, limited_work, use_pause_hooks
from guided.spec import JsonOptions, JsonSchema, KeyOrder


def _peak_bytes(call: Callable[[], object]) -> int:
    """Return how much memory a call takes that a limit ends."""
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceededError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _letters(count: int) -> str:
    return "".join(map(chr, range(0x4E00, 0x4E00 + count)))


def test_a_table_of_many_letters_is_refused_before_it_takes_memory() -> None:
    assert _peak_bytes(lambda: choices_dfa({_letters(8_100): 0})) < 20_000_000
    listed = Formulas().leaf(StringChoices((_letters(4_100),)))
    assert _peak_bytes(lambda: listed_dfa([listed])) < 20_000_000
    with limited_work(100_000):
        assert _peak_bytes(lambda: choices_dfa({_letters(3_000): 0})) < 10_000_000


def test_a_trie_is_counted_as_it_grows() -> None:
    with limited_work(1_000):
        assert _peak_bytes(lambda: choices_dfa({"ab" * 20_000: 0})) < 1_000_000


def test_each_of_many_lists_is_kept_only_with_the_strings_in_it() -> None:
    formulas = Formulas()
    lists = [formulas.leaf(StringChoices((f"{n}", f"{n + 1}"))) for n in range(300)]
    dfa, holding = listed_dfa(lists)
    assert {text: holding[dfa.run(text)] for text in ("0", "1", "300", "301")} == {
        "0": (0,),
        "1": (0, 1),
        "300": (299,),
        "301": (),
    }
    assert sum(map(len, holding)) == 600


def test_a_list_that_is_joined_to_others_is_counted_each_time() -> None:
    formulas = Formulas()
    long = formulas.leaf(StringChoices(tuple(map(str, range(2_000)))))
    joined = formulas.all_of(
        formulas.any_of([long, formulas.leaf(StringChoices((f"x{n}",)))]) for n in range(1_000)
    )
    with limited_work(100_000), pytest.raises(LimitExceededError):
        Restriction(formulas).to_type(JsonType.STRING, joined)


class _Read(tuple[Any, ...]):
    """A list that counts how often it is read from its beginning."""

    times = 0

    def __contains__(self, value: object) -> bool:
        self.times += 1
        return super().__contains__(value)

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("value", ["17", Decimal(17)], ids=["strings", "numbers"])
def test_a_long_list_is_not_read_again_for_each_value(value: Any) -> None:
    formulas = Formulas()
    scalars = Scalars(formulas, JsonOptions(), frozenset(), 4)
    listed = _Read(type(value)(number) for number in range(100))
    if isinstance(value, str):
        leaf = formulas.leaf(StringChoices(listed))
        assert scalars.strings.fits(leaf, value)
        assert not any(scalars.strings.fits(leaf, f"{n}") for n in range(100, 200))
    else:
        leaf = formulas.leaf(NumberChoices(listed))
        assert scalars.numbers.fits(leaf, value)
        assert not any(scalars.numbers.fits(leaf, Decimal(n)) for n in range(100, 200))
    assert listed.times == 1


def _forbidden_together(count: int) -> Recognizer:
    """Return the machine of objects in which each of ten lists of members is broken by some."""
    lists = ({f"{part}{n}": {"type": "integer"} for n in range(count)} for part in "abcdefghij")
    schema = {"type": "object", "allOf": [{"not": {"properties": each}} for each in lists]}
    return machine_of(JsonSchema(json.dumps(schema)))


def test_each_name_that_may_break_a_schema_is_counted() -> None:
    """Each list of names is reached only after all names of those before, and often."""
    small, large = _forbidden_together(1), _forbidden_together(1_200)
    small.shortest_completion(small.start)  # compiles kernels
    began = time.process_time()
    with limited_work(300_000), pytest.raises(LimitExceededError):
        large.shortest_completion(large.start)
    # It takes less than a second; uncounted, minutes.
    assert time.process_time() - began < 10


def test_what_is_left_of_a_long_prefix_shares_it() -> None:
    count = 5_000
    schema = {
        "type": "array",
        "prefixItems": [{"const": n % 7} for n in range(count)],
        "items": {"type": "null"},
    }
    machine = machine_of(JsonSchema(json.dumps(schema)))
    state = machine.advance(machine.start, b"[0")
    assert state is not None
    tracemalloc.start()
    try:
        for number in range(1, 200):
            assert machine.advance(state, b",%d" % ((number + 1) % 7)) is None
            state = machine.advance(state, b",%d" % (number % 7))
            assert state is not None
        # A copy of the rest for each item would take 40 kB, and be kept.
        assert tracemalloc.get_traced_memory()[0] < 199 * 20_000
    finally:
        tracemalloc.stop()
    rest = b"".join(b",%d" % (number % 7) for number in range(200, count))
    end = machine.advance(state, rest + b",null,null")
    assert end is not None
    assert machine.advance(end, b",0") is None
    assert machine.advance(end, b"]") is not None


def test_short_rests_of_a_prefix_are_equal_whatever_came_before() -> None:
    formulas = Formulas()
    leaves = [formulas.leaf(StringChoices((str(number),))) for number in range(80)]
    rests: list[Any] = [Items(tuple(leaves), leaves[0]), Items(tuple(leaves[1:]), leaves[0])]
    while len(rests[0].prefix) > 65:
        rests = [Items(without_first(rest.prefix), leaves[0]) for rest in rests]
        assert tuple(rests[0].prefix)[1:] == tuple(rests[1].prefix)
        assert isinstance(rests[0].prefix, LaterFormulas) == (len(rests[0].prefix) > 64)
    assert Items(without_first(rests[0].prefix), leaves[0]) == rests[1]


def test_long_spellings_of_numbers_are_counted_where_they_share_their_beginning() -> None:
    values = [Decimal(f"{number}.5e-390") for number in range(1_000)]
    with limited_work(40_000), pytest.raises(LimitExceededError):
        listed_numbers(values, shortest=False)


def test_the_items_of_a_constant_are_counted() -> None:
    with limited_work(25_000), pytest.raises(LimitExceededError):
        formula_of_value([0] * 10_000, Formulas())


@pytest.mark.parametrize("value", [None, True, False, 0, Decimal("1.50"), "", "a"], ids=repr)
def test_a_value_alone_has_the_formula_of_a_list_of_it(value: Any) -> None:
    formulas = Formulas()
    assert formula_of_value(value, formulas) is one_of_values([value], formulas)


def test_work_can_pause_between_the_names_that_may_come_next() -> None:
    count = 10_000
    schema = {"type": "object", "properties": {f"a{number}": True for number in range(count)}}
    machine = machine_of(
        JsonSchema(json.dumps(schema), options=JsonOptions(key_order=KeyOrder.ANY))
    )
    pauses: list[int] = []
    hooks = PauseHooks(10**9, pauses.append, lambda _: None, lambda: None)
    with use_pause_hooks(hooks):
        assert machine.advance(machine.start, b'{"a1') is not None
    # Judged, compared and spelled, and several times as states are made: a pause every 500.
    assert len(pauses) > 6 * count // 500


def test_strings_that_differ_are_counted_by_the_rows_that_each_of_them_changes() -> None:
    """The work was undercounted tenfold: 800 strings took half a minute within all limits."""
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 100}
    constraint = JsonSchema(json.dumps(schema))
    with limited_work(8_000), pytest.raises(LimitExceededError):
        machine_of(constraint)
    with limited_work(100_000):
        machine_of(constraint)
