"""Stacks of grammars with holes: the parses that are inside holes, and their states there.

The frame of a stack is a tuple of numbers. In stacks of the grammar alone these are continuations,
which are not negative; other frames begin with their kind::

    (INSIDE, hole, stack of its machine, continuation)            a single parse, inside a hole
    (SEVERAL, state, continuation, state, continuation ...)       several parses
    (ISOMORPHIC, hole, stack, continuation ..., isomorphism ...)  several, in isomorphic rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from guided.grammar.machine.continuations import GrammarStacks
from guided.grammar.machine.isomorphic_rows import Isomorphism
from guided.machine.facts import KNOWLEDGE, KNOWN
from guided.machine.recognizer import Recognizer

__all__ = ["CompositeStacks", "Inside", "IsomorphicParses"]

_INSIDE: Final = -1
_SEVERAL: Final = -2
_ISOMORPHIC: Final = -3
_OF_HOLES: Final = ((_INSIDE,), (_SEVERAL,), (_ISOMORPHIC,))
"""Beginnings of frames with parses inside holes."""


class Inside(NamedTuple):
    """A parse that is inside a hole."""

    hole: int
    stack: int
    """The stack of the machine that fills the hole."""
    continuation: int
    """What follows the hole."""


class IsomorphicParses(NamedTuple):
    """Parses that are all inside holes in isomorphic rows; the state has the row of the first."""

    parses: tuple[Inside, ...]
    maps: tuple[Isomorphism, ...]
    """From the row of the first parse to that of each, itself included."""


class CompositeStacks(GrammarStacks):
    """Numbers the stacks of a grammar with holes."""

    def __init__(self, max_count: int, fillings: Sequence[Recognizer]) -> None:
        super().__init__(max_count)
        self._fillings = fillings
        # Each stack that is not of the grammar alone is in one of these three, which decode its
        # frame. Nothing is removed from them.
        self.inside: dict[int, Inside] = {}
        """By stack, its only parse."""
        self.several: dict[int, Mapping[int, int]] = {}
        """By stack, its parses, as ``intern_several`` took them."""
        self.isomorphic: dict[int, IsomorphicParses] = {}
        """By stack, its parses."""

    def is_of_grammar(self, number: int) -> bool:
        """Return whether no parse is inside a hole."""
        return self.frames[number][:1] not in _OF_HOLES

    def intern_inside(self, inside: Inside) -> int:
        """Return the stack of a single parse inside a hole."""
        number = self.intern((_INSIDE, *inside))
        if number not in self.inside:
            self.inside[number] = inside
            # Compiled code reads these facts as it would those of the stack in the hole.
            facts = self._fillings[inside.hole].parts.stacks.facts[inside.stack]
            self.facts[number] = facts
            if facts[KNOWLEDGE] == KNOWN:
                self.with_keys.append(number)
        return number

    def intern_several(self, parses: Mapping[int, int]) -> int:
        """Return the stack of several parses: the continuation of each, by state.

        The state is END if the text may end. What calls and returns lead to must have been added
        before. States that read nothing may be left out, and so may parses that the caller handles
        in another state.
        """
        ordered = sorted(parses.items())
        number = self.intern((_SEVERAL, *(number for parse in ordered for number in parse)))
        self.several.setdefault(number, dict(ordered))
        return number

    def intern_isomorphic(self, isomorphic: IsomorphicParses) -> int:
        """Return the stack of several parses in isomorphic rows."""
        frame = [number for parse in isomorphic.parses for number in parse]
        frame += [each.number for each in isomorphic.maps]
        number = self.intern((_ISOMORPHIC, *frame))
        self.isomorphic.setdefault(number, isomorphic)
        return number

    def additional_names(self, number: int) -> set[bytes]:
        """Return the names of the innermost object that must not be repeated, see ``StackTable``.

        Empty unless the only parse is inside a hole: bytes of several parses are tried in the
        machines of the holes, which check these names.
        """
        inside = self.inside.get(number)
        if inside is None:
            return set()
        return self._fillings[inside.hole].parts.stacks.additional_names(inside.stack)
