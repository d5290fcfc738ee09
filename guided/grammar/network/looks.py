"""What terminals ask of the text around them, as an automaton.

A rule's automaton has a *mark* where a terminal asks for something, as a letter. Which marks may
stand in a text is regular: what a look-behind asks for is known there, and what a look-ahead asks
for is an obligation that all that follows carries on. So ``"?" (?![a-z])`` ends in a state from
which no letter leads on, and one byte behind it all is as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.network.letters import MAX_MARKS
from guided.grammar.network.network import HoleText
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, dfa_from_regular
from guided.regular.expression import ANYTHING, Concat, Look
from guided.regular.utf8 import utf8_sequences
from guided.runtime.fuel import spend

__all__ = ["Border", "Looks", "LooksState", "Mark"]


class Border(Enum):
    """The ends of a text that sees nothing of what stands around it."""

    BEGIN = "begin"
    END = "end"


Mark: TypeAlias = Look | Border


class _Level(NamedTuple):
    """What is known inside of such a text, or of the whole."""

    behind: tuple[frozenset[int], ...]
    """The states that each look-behind may be in, one but behind a hole; none if it never holds."""
    ahead: frozenset[tuple[int, int]]
    """The look-aheads that are not decided, each with its state."""


LooksState: TypeAlias = tuple[_Level, ...]
"""The levels, innermost last."""


class Looks:
    """The automaton of what marks ask for, over classes of bytes that they all read alike."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        if len(marks) > MAX_MARKS:
            raise LimitExceededError(
                f"the terminals look around in {len(marks)} ways, more than {MAX_MARKS}",
                limit=MAX_MARKS,
                field="constraint",
            )
        self._marks = marks
        self._behind = {n: _searched(m) for n, m in enumerate(marks) if _looks(m, ahead=False)}
        self._ahead = {n: _continued(m) for n, m in enumerate(marks) if _looks(m, ahead=True)}
        self._settled = {n: found[1] for n, found in self._ahead.items()}
        self._tables = {n: found[0] for n, found in self._ahead.items()} | self._behind
        self._any = tuple(frozenset(range(len(table))) for table in self._behind.values())
        begun = tuple(states & {0} for states in self._any)
        self._fresh = _Level(begun, frozenset())
        alone = Border.BEGIN in marks
        self.start: LooksState = () if alone else (self._fresh,)
        columns = np.array([table.byte_class for table in self._tables.values()], dtype=np.uint8)
        columns = columns.reshape(-1, 256)
        kinds: dict[bytes, list[tuple[int, int]]] = {}
        for byte in range(256):
            kinds.setdefault(columns[:, byte].tobytes(), []).append((byte, byte))
        self.classes = [CodePoints.of(bytes_) for bytes_ in kinds.values()]
        self._known: dict[tuple[LooksState, int], LooksState | None] = {}

    def read(self, state: LooksState, byte: int) -> LooksState | None:
        """The state behind a byte, ``None`` where it breaks what was asked for."""
        if (state, byte) not in self._known:
            spend(10 + sum(10 + 3 * (len(each.ahead) + len(each.behind)) for each in state))
            levels = [self._level_behind(level, byte) for level in state]
            kept = tuple(level for level in levels if level is not None)
            self._known[state, byte] = kept if len(kept) == len(levels) else None
        return self._known[state, byte]

    def _level_behind(self, level: _Level, byte: int) -> _Level | None:
        behind = tuple(
            frozenset(table.step(at, byte) for at in states) - {DEAD}
            for table, states in zip(self._behind.values(), level.behind, strict=True)
        )
        obliged = set[tuple[int, int]]()
        for number, at in level.ahead:
            left = self._obliged(number, self._tables[number].step(at, byte))
            if left is None:
                return None
            obliged |= left
        return _Level(behind, frozenset(obliged))

    def _obliged(self, number: int, at: int) -> frozenset[tuple[int, int]] | None:
        """What is left of a look-ahead in a state, ``None`` where it fails."""
        if at not in (DEAD, self._settled[number]):
            return frozenset({(number, at)})
        fulfilled = (at != DEAD) != self._negative(number)
        return frozenset() if fulfilled else None

    def _negative(self, number: int) -> bool:
        mark = self._marks[number]
        assert isinstance(mark, Look), "only look-around has a state"
        return mark.negative

    def pass_mark(self, state: LooksState, number: int) -> LooksState | None:
        """The state behind a mark, ``None`` where it may not stand."""
        mark = self._marks[number]
        if mark is Border.BEGIN:
            return (*state, self._fresh)
        *outer, level = state
        if mark is Border.END:
            return tuple(outer) if self._may_end(level) else None
        if number in self._ahead:
            begun = self._obliged(number, 0 if len(self._tables[number]) else DEAD)
            return None if begun is None else (*outer, level._replace(ahead=level.ahead | begun))
        states = dict(zip(self._behind, level.behind, strict=True))[number]
        label = self._behind[number].label
        found = {label[at] != DEAD for at in states} or {False}
        if len(found) > 1:
            _refuse_hole("behind")
        return state if found != {self._negative(number)} else None

    def may_end(self, state: LooksState) -> bool:
        """Whether the whole may end in a state."""
        return all(map(self._may_end, state))

    def _may_end(self, level: _Level) -> bool:
        return all(
            (self._tables[number].label[at] != DEAD) != self._negative(number)
            for number, at in level.ahead
        )

    def pass_hole(self, state: LooksState, hole: HoleText) -> LooksState | None:
        """The state behind a hole.

        Raises UnsupportedFeatureError where that depends on the text of the hole.
        """
        reached = {self._behind_hole(self.read(state, byte)) for byte in hole.first}
        behind = reached.pop()
        if reached or (behind is not None and any(level.ahead for level in behind)):
            _refuse_hole("ahead")
        return behind

    def _behind_hole(self, state: LooksState | None) -> LooksState | None:
        """The state with nothing known of what stands before it."""
        return state and tuple(level._replace(behind=self._any) for level in state)


def _refuse_hole(direction: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"look-{direction} at the edge of a terminal that would see into a JSON value",
        hint="part them by a text, or leave the look-around out",
    )


def _looks(mark: Mark, *, ahead: bool) -> bool:
    return isinstance(mark, Look) and mark.ahead == ahead


def _searched(mark: Mark) -> ByteDfa:
    """The texts behind whose end a look-behind finds what it looks for."""
    assert isinstance(mark, Look)
    return byte_dfa_from_dfa(dfa_from_regular(Concat((ANYTHING, mark.item))), utf8_sequences)


def _continued(mark: Mark) -> tuple[ByteDfa, int | None]:
    """The texts before which a look-ahead finds it, and the state that has all texts, if any."""
    assert isinstance(mark, Look)
    dfa = dfa_from_regular(Concat((mark.item, ANYTHING)))
    # States keep their order, those inside of a code point come behind them.
    all_texts = [
        state
        for state, row in enumerate(dfa.next.tolist())
        if dfa.label[state] != DEAD
        and set(row) == {state}
        and not ~CodePoints.of(bounds for chars in dfa.classes for bounds in chars.ranges)
    ]
    return byte_dfa_from_dfa(dfa, utf8_sequences), all_texts[0] if all_texts else None
