"""Free text with tags in it, compared with a hand-written reading of all short texts."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import pytest

from guided.constraint import ConstraintCompiler
from guided.machine.recognizer import Recognizer, State
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import JsonSchema, Regex, Structure
from guided.spec.composition import AnyOf, Sequence
from guided.spec.tagged import Calls, FreeText, Tag, Tagged, Until
from tests.kit.effort import is_long
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.walks import END, random_walk, tried

_VOCABULARY = tiny_vocabulary((b"<a", b"a<", b"<<", b"1<", b"<a1", b"b>", b"a>1", b"><"))
_COMPILER = ConstraintCompiler(_VOCABULARY)
_LETTERS = "<a1>"
_LONGEST = 7 if is_long() else 6
"""Seven take four times as long, and show the text between a whole call and the next one."""
_PATTERNS = {"1": "1|11", "2": "a*"}
_ONES = JsonSchema('{"enum": [1, 11]}')
_TAGGED = [
    Tagged([Tag("<a", _ONES)]),
    Tagged([Tag("<a", _ONES, ">")]),
    Tagged([Tag("<a", Regex("a*"), ">"), Tag("<1", _ONES, "1")], "<"),
    Tagged([Tag("<a>", _ONES, "<"), Tag("<a1", Regex("a*"))], ["<a", "<a1"]),
    # One trigger begins another, or ends with it.
    Tagged([Tag("a", Regex("a*"), ">"), Tag("<a", _ONES, ">")]),
    Tagged([Tag("<a", _ONES, ">"), Tag("<aa", Regex("a*"), "1")]),
    Tagged([Tag("aa", _ONES)]),
    Tagged([Tag("a<a", _ONES, "a")]),
]


def _reads(tagged: Tagged, text: str) -> bool:
    """Whether the text is one of the constraint's, by its definition."""
    seen: dict[tuple[int, int], bool] = {}

    def free(at: int, calls: int) -> bool:
        """Whether the rest of the text is right, from a place in free text on."""
        if (at, calls) not in seen:
            seen[at, calls] = ends(at, calls)
        return seen[at, calls]

    def ends(at: int, calls: int) -> bool:
        found = [
            (place + len(trigger), trigger)
            for trigger in tagged.triggers
            if (place := text.find(trigger, at)) >= 0
        ]
        if not found:
            return calls > 0 or tagged.calls is not Calls.REQUIRED
        if tagged.calls is Calls.NONE or (calls and not tagged.parallel):
            return False
        first = min(found)[0]
        begun = [trigger for place, trigger in found if place == first]
        return any(
            free(end, calls + 1)
            for trigger in begun
            for tag in tagged.tags
            if tag.begin.startswith(trigger)
            for end in _ends_of(tag, text, first - len(trigger))
        )

    return free(0, 0)


def _ends_of(tag: Tag, text: str, at: int) -> Iterator[int]:
    """The places where a tag that begins at a place may end."""
    body = "1|11" if tag.body == _ONES else "a*"
    whole = re.compile(f"{re.escape(tag.begin)}({body}){re.escape(tag.end)}")
    for end in range(at, len(text) + 1):
        if whole.fullmatch(text, at, end):
            yield end


def _texts() -> Iterator[str]:
    for length in range(_LONGEST + 1):
        yield from map("".join, itertools.product(_LETTERS, repeat=length))


def _accepted(machine: Recognizer) -> set[str]:
    """The short texts that a recogniser accepts."""
    found: set[str] = set()
    waiting: list[tuple[str, State]] = [("", machine.start)]
    while waiting:
        text, state = waiting.pop()
        if machine.is_accepting(state):
            found.add(text)
        for letter in _LETTERS if len(text) < _LONGEST else "":
            behind = machine.advance(state, letter.encode())
            if behind is not None:
                waiting.append((text + letter, behind))
    return found


@pytest.mark.parametrize("calls", list(Calls))
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("given", _TAGGED)
def test_tagged_texts_are_those_that_the_definition_says(
    given: Tagged, calls: Calls, parallel: bool
) -> None:
    tagged = Tagged(given.tags, given.triggers, calls, parallel)
    accepted = _accepted(_COMPILER.compile(tagged).machine)
    assert accepted == {text for text in _texts() if _reads(tagged, text)}


@pytest.mark.parametrize(
    ("constraint", "pattern"),
    [
        (FreeText(), ".*"),
        (FreeText("<a"), "(?!.*<a).*"),
        (FreeText(["a", "11"]), "(?!.*(a|11)).*"),
        (Until("<a>"), "(?!.*<a>.).*<a>"),
        (Until(["aa", "<aa", "1"]), "(?!.*(aa|1).).*(aa|1)"),
        (Sequence([Until("<>"), _ONES]), "(?!.*<>.*<>)(?!.*<>.*<>).*<>(1|11)"),
        (AnyOf([FreeText("<"), "<<", Until("<a")]), "[^<]*|<<|(?!.*<a.).*<a"),
    ],
)
def test_free_texts_are_what_patterns_say(constraint: Structure, pattern: str) -> None:
    accepted = _accepted(_COMPILER.compile(constraint).machine)
    assert accepted == {text for text in _texts() if re.fullmatch(pattern, text, re.DOTALL)}


def _allowed(matcher: Matcher) -> set[int]:
    return set(tokens_of(matcher.mask()).tolist())


@pytest.mark.parametrize("given", _TAGGED)
def test_a_mask_equals_trying_every_token(given: Tagged) -> None:
    start = _COMPILER.start(given)
    for seed in range(6):
        for matcher in random_walk(start, random.Random(seed), 12).matchers:
            expected: set[int] = set(tried(matcher, range(1, len(_VOCABULARY))))
            assert _allowed(matcher) == (expected | {END} if matcher.is_accepting else expected)
