"""The automaton of a pattern that splits texts: it finds where a piece may end.

A match is the one that a backtracking matcher takes: the first of the alternatives in their order.
A state is the list of the program's steps still being tried, first ones first, before the next
character is known, since steps that look ahead need it. So a match that ends before a character is
noticed when that character is read. States are made when they are first reached.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, TypeAlias

from guided.masks.split_pattern import (
    FOLLOWED,
    FORK,
    MATCH,
    NOT_FOLLOWED,
    READ,
    CharacterTest,
    Program,
)

__all__ = ["DEAD", "SplitAutomaton"]

DEAD: Final = 0
_START: Final = 1
_MAX_CACHED: Final = 65_536
"""Characters whose classes are remembered."""

_Threads: TypeAlias = tuple[int, ...]
"""Numbers of a program's steps, in the order in which a backtracking matcher tries them."""


class SplitAutomaton:
    """Matches one pattern; several threads of the process may use it at once."""

    def __init__(self, program: Program, tests: Sequence[CharacterTest]) -> None:
        """``tests`` decide for each class of the program which characters it holds."""
        self._steps = program.steps
        self._tests = tests
        self._classes: dict[str, int] = {}
        """The results of ``_classes_of`` by character."""
        self._states: dict[_Threads, int] = {(): DEAD, (0,): _START}
        self._threads: list[_Threads] = [(), (0,)]
        """The steps of each state, the inverse of ``_states``. States are never dropped."""
        self._by_character: list[dict[str, tuple[int, bool]]] = [{}, {}]
        """The results of ``_read`` by state and character; emptied with ``_classes``, unlike
        ``_by_classes``, which has the same by state and classes."""
        self._by_classes: dict[tuple[int, int], tuple[int, bool]] = {}
        self._sure_states: dict[int, bool] = {}
        """The results of ``is_sure_to_match`` by state."""
        self._lock = threading.Lock()
        """Held while states are made, and while characters are remembered or forgotten."""

    def match(self, text: str, begin: int) -> tuple[int, int | None]:
        """Return the state after a text that may continue, and where the longest match so far ends.

        The match begins at ``begin``. The state is DEAD if no continuation of the text makes the
        match longer; the end is ``None`` if nothing has matched yet. The end is after ``begin``,
        as no program matches the empty text (``program_of``): ``Splitting`` would not advance
        otherwise. A match that would end with the text is not reported: see ``matches_at_end`` and
        ``is_sure_to_match``.
        """
        state = _START
        last: int | None = None
        for at in range(begin, len(text)):
            reached = self._by_character[state].get(text[at])
            if reached is None:
                reached = self._read(state, text[at])
            state, is_match = reached
            if is_match:
                last = at
            if state == DEAD:
                break
        return state, last

    def may_consume(self, state: int, text: str) -> bool:
        """Return whether a match in a state may take a whole text.

        True may be wrong about whether it ends in a match: the match is only still being tried.
        """
        for character in text:
            if state == DEAD:
                return False
            reached = self._by_character[state].get(character) or self._read(state, character)
            state = reached[0]
        return state != DEAD

    def matches_at_end(self, state: int) -> bool:
        """Return whether there is a match up to here if the text ends here."""
        return self._advance_threads(state, None)[1]

    def is_sure_to_match(self, state: int) -> bool:
        """Return whether there is certainly a match up to here or further, whatever follows.

        False may be wrong: steps that look ahead count as if they might fail. True never is.
        """
        found = self._sure_states.get(state)
        if found is None:
            found = self._sure_states[state] = any(map(self._reaches_match, self._threads[state]))
        return found

    def _reaches_match(self, thread: int) -> bool:
        """Return whether a step leads to a match without looking at what follows."""
        worklist, seen = [thread], set[int]()
        while worklist:
            number = worklist.pop()
            step = self._steps[number]
            if step.kind == MATCH:
                return True
            if step.kind == FORK and number not in seen:
                seen.add(number)
                worklist += [step.first, step.second]
        return False

    def _read(self, state: int, character: str) -> tuple[int, bool]:
        """Return the state after a character, and whether there is a match that ends before it.

        What it enters under the lock follows from the state and the character, so threads that read
        without the lock may miss it and ask again, but nothing worse.
        """
        classes = self._classes_of(character)
        with self._lock:
            reached = self._by_classes.get((state, classes))
            if reached is None:
                threads, is_match = self._advance_threads(state, classes)
                number = self._states.get(threads)
                if number is None:
                    number = self._states[threads] = len(self._threads)
                    self._threads.append(threads)
                    self._by_character.append({})
                reached = self._by_classes[state, classes] = number, is_match
            self._by_character[state][character] = reached
        return reached

    def _classes_of(self, character: str) -> int:
        """Return the classes that hold a character, one bit for each.

        If too many characters are remembered all are forgotten, and ``_by_character`` with them.
        """
        classes = self._classes.get(character)
        if classes is None:
            classes = 0
            for number, test in enumerate(self._tests):
                classes |= int(test(character)) << number
            with self._lock:
                if len(self._classes) >= _MAX_CACHED:
                    self._classes.clear()
                    self._by_character = [{} for _ in self._by_character]
                self._classes[character] = classes
        return classes

    def _advance_threads(self, state: int, classes: int | None) -> tuple[_Threads, bool]:
        """Return the steps after the next character, and whether there is a match before it.

        ``classes`` are those of the character, ``None`` for the end of the text. Steps are tried in
        order, as a backtracking matcher does. A match ends the search: alternatives after it in
        this order would not be tried, those before it are kept and may still take its place.
        """
        # A stack, so the first step to be tried is pushed last.
        worklist = list(reversed(self._threads[state]))
        seen: set[int] = set()
        next_threads: dict[int, None] = {}
        while worklist:
            number = worklist.pop()
            if number in seen:
                continue
            seen.add(number)
            kind, first, second = self._steps[number]
            if kind == MATCH:
                return tuple(next_threads), True
            is_of_class = classes is not None and bool(classes >> first & 1)
            if kind == FORK:
                worklist += [second, first]
            elif kind == READ:
                if is_of_class:
                    next_threads.setdefault(number + 1)
            elif (kind == FOLLOWED) == is_of_class:
                assert kind in (FOLLOWED, NOT_FOLLOWED), kind
                worklist.append(number + 1)
        return tuple(next_threads), False
