"""Caches shared by schemas: bounded whatever callers choose, and right nevertheless."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from decimal import Decimal

import pytest

from guided.errors import UnsatisfiableError
from guided.json_schema.formulas import numbers
from guided.json_schema.formulas.assertions import NumberChoices
from guided.json_schema.formulas.numbers import number_dfa, number_verdicts
from guided.json_schema.machine import scalar_blocks
from guided.json_schema.machine.scalar_blocks import json_literal, pattern_dfa
from guided.json_schema.machine.spelled_texts import _sort
from guided.json_schema.reader.formats import format_regular
from guided.regular.dfa import Dfa
from guided.regular.expression import Alternate, literal
from guided.spec import Spelling
from tests.unit.json_schema.documents import machine_of


@pytest.mark.parametrize("length", [0, 1, 256, 257, 100_000])
def test_spellings_of_long_strings_are_made_anew(length: int) -> None:
    text = "é" * length
    first, second = json_literal(text), json_literal(text)
    assert first == second == json.dumps(text, ensure_ascii=False).encode()
    assert (first is second) is (length <= 256)


def test_an_automaton_that_is_too_large_to_keep_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pattern = literal("not kept anywhere else")
    kept = pattern_dfa(pattern)
    assert pattern_dfa(pattern) is kept
    scalar_blocks._dfas.pop(pattern)
    # Constants are compiled in; the bound that counts is the cache's own.
    monkeypatch.setattr(scalar_blocks._dfas, "_Cache__maxsize", 1)
    assert pattern_dfa(pattern) is not pattern_dfa(pattern)


@pytest.mark.parametrize("count", [0, 1, 5_000, 5_001, 12_345])
def test_many_texts_are_sorted_as_few_are(count: int) -> None:
    rng = random.Random(count)
    texts = [(rng.randbytes(3), rng.randrange(3)) for _ in range(count)]
    assert _sort(texts) == sorted(texts)


def test_names_of_formats_that_are_not_known_are_not_kept() -> None:
    name = "".join(["a format that", " a request makes up"])
    before = sys.getrefcount(name)
    assert format_regular(name) is None
    assert sys.getrefcount(name) == before


def test_kept_automata_count_with_their_patterns() -> None:
    before = scalar_blocks._dfas.currsize
    # Of 200 states, and not kept elsewhere.
    pattern_dfa(Alternate(tuple(literal("k" * length) for length in range(1, 201))))
    assert scalar_blocks._dfas.currsize - before > 100_000


def test_blocks_that_are_none_count_with_the_lists_in_their_keys() -> None:
    before = scalar_blocks._blocks.currsize
    values = [10**9 + number for number in range(2_000)]
    with pytest.raises(UnsatisfiableError):
        machine_of({"enum": values, "maximum": 3})
    assert scalar_blocks._blocks.currsize - before > 50 * len(values)


@pytest.mark.parametrize("make", [number_dfa, number_verdicts])
def test_automata_of_numbers_count_with_the_lists_in_their_keys(
    make: Callable[[NumberChoices, Spelling, int | None], Dfa],
) -> None:
    before = numbers._dfas.currsize
    values = tuple(Decimal(10**12 + number) for number in range(2_000))
    dfa = make(NumberChoices(values), Spelling.CANONICAL, 20)
    assert numbers._dfas.currsize - before > dfa.next.nbytes + 100 * len(values)
