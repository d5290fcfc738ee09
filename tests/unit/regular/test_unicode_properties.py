"""Properties of characters and case folding, compared with node and the module ``regex``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import regex

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.patterns import parse_python_regex, parse_regex
from guided.regular.patterns.character_classes import ecma_case_closure, python_case_closure
from guided.regular.patterns.properties import (
    nearest_property,
    property_names,
    read_ranges,
    unicode_folds,
    unicode_property,
)
from guided.runtime.work_budget import limited_work
from tests.kit.node import Node, has_node
from tests.kit.pack_unicode import VERSION, written_ranges

_LAST = 0x10FFFF


def _property(name: str) -> CodePoints:
    found = unicode_property(name)
    assert found is not None, name
    return found


def _edges() -> list[str]:
    """Characters at both sides of every place where one of the properties begins or ends."""
    edges = {
        code_point
        for name in property_names()
        for first, last in _property(name).ranges
        for code_point in (first - 1, first, last, last + 1)
    }
    return [chr(point) for point in sorted(edges) if 0 <= point <= _LAST and not _is_half(point)]


def _is_half(code_point: int) -> bool:
    return 0xD800 <= code_point < 0xE000


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if not has_node():
        pytest.skip("there is no node to ask")
    if not VERSION.startswith(Node.unicode_version()):
        pytest.skip(f"node knows Unicode {Node.unicode_version()}")
    with Node() as process:
        yield process


def test_all_properties_are_those_of_node(node: Node) -> None:
    """At every second edge of a property, and a sample of all others."""
    edges = _edges()
    rng = random.Random(1)
    for name in property_names():
        chars = _property(name)
        tried = [chr(first) for first, _ in chars.ranges if not _is_half(first)]
        tried += rng.sample(edges, 1_000)
        assert [ord(each) in chars for each in tried] == node.found_in(
            rf"\p{{{name}}}", "u", tried
        ), name


_OTHERWISE_IN_REGEX = {"IDC", "VS", "CWKCF", "Changes_When_NFKC_Casefolded"}
"""Names with another meaning there, or with none."""


def test_all_properties_are_nearly_those_of_regex() -> None:
    """Another version of Unicode gives other properties to only few existing characters."""
    unassigned = _property("gc=Cn")
    cased = "".join(each for each in _edges() if ord(each) not in unassigned)
    edges = regex.sub(r"\p{gc=Cn}", "", cased)
    assert len(edges) > 5_000
    for name in property_names():
        if name not in _OTHERWISE_IN_REGEX:
            chars = _property(name)
            found = set(regex.findall(rf"\p{{{name}}}", edges, regex.V1))
            assert len(found ^ {edge for edge in edges if ord(edge) in chars}) <= 5, name


def test_case_is_folded_as_node_folds_it(node: Node) -> None:
    folds = unicode_folds()
    cased = [chr(code_point) for code_point in sorted({*folds, *folds.values()})]
    rng = random.Random(1)
    for letter in [*"kKsSßſµΣςİıǅ", *rng.sample(cased, 60)]:
        chars = ecma_case_closure(CodePoints.single(letter))
        expected = node.found_in(rf"\u{{{ord(letter):x}}}", "iu", cased)
        assert [ord(each) in chars for each in cased] == expected, letter


@pytest.mark.parametrize("closure", [ecma_case_closure, python_case_closure])
@pytest.mark.parametrize("size", [1, 3, 60, 70, 700])
def test_a_set_is_folded_as_its_members_are(
    closure: Callable[[CodePoints], CodePoints], size: int
) -> None:
    """Few members are looked up one by one, many by ranges."""
    folds = unicode_folds()
    cased = [*map(ord, "aksKſßµΣςİıǅ"), *folds, *folds.values(), *range(32, 200)]
    members = random.Random(size).sample(cased, size)
    together = CodePoints.from_ranges((each, each) for each in members)
    expected = CodePoints.from_ranges(
        pair for each in members for pair in closure(CodePoints.from_ranges([(each, each)])).ranges
    )
    assert closure(together) == expected
    for each in random.Random(size).sample(cased, 20):
        single = CodePoints.from_ranges([(each, each)])
        assert (each in closure(~together)) == bool(closure(single) & ~together), chr(each)


@pytest.mark.parametrize("parse", [parse_regex, parse_python_regex])
def test_ignoring_case_is_work_by_the_length_of_the_pattern(parse: Callable[[str], object]) -> None:
    """All folds were looked at for each letter: seconds that were not counted."""
    letters = "(?i)" + "".join(map(chr, range(0x4E00, 0x4E00 + 4_000)))
    with limited_work(50_000):
        parse(letters)
    with limited_work(3_000), pytest.raises(LimitExceededError):
        parse(letters.replace("\u4e00", "a"))


def test_what_is_folded_stays_as_it_is() -> None:
    folds = unicode_folds()
    assert not folds.keys() & set(folds.values())
    assert folds[ord("ẞ")] == ord("ß")


@pytest.mark.parametrize(
    "name", ["Greek", "script=Greek", "=L", "=Alphabetic", "fold=32", "Script", "L=Lu", "", "scx="]
)
def test_what_ecma_does_not_name_is_no_property(name: str) -> None:
    assert unicode_property(name) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Greek", "Script=Greek"),
        ("IsGreek", "Script=Greek"),
        ("sc=old italic", "Script=Old_Italic"),
        ("letter", "Letter"),
        ("alphabetic", "Alphabetic"),
        ("Klingon", None),
    ],
)
def test_names_of_other_dialects_are_near_one_of_ecma(written: str, meant: str | None) -> None:
    assert nearest_property(written) == meant


@pytest.mark.parametrize("ranges", [[(0, 0)], [(0x41, 0x5A), (0x61, 0x61), (0x10FFFF, 0x10FFFF)]])
def test_ranges_are_read_as_they_were_written(ranges: list[tuple[int, int]]) -> None:
    assert read_ranges(written_ranges(ranges)) == ranges
