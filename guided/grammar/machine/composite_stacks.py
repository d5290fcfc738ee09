"""Stacks of grammars with holes: which parses of the text are inside of holes, and where.

A frame is a tuple of numbers. Those of a grammar by itself are continuations, which are never
negative; others begin with what they are::

    (INSIDE, hole, stack of its machine, continuation)              one parse, inside of a hole
    (SEVERAL, state, continuation, state, continuation ...)         several parses
    (ISOMORPHIC, three numbers a parse ..., a map for each parse)   several, in isomorphic rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from guided.grammar.machine.continuations import GrammarStacks
from guided.grammar.machine.isomorphic_rows import Isomorphism
from guided.machine.facts import KNOWLEDGE, KNOWN
from guided.machine.pushdown import PushdownMachine

__all__ = ["CompositeStacks", "Inside", "IsomorphicParses"]

_INSIDE: Final = -1
_SEVERAL: Final = -2
_ISOMORPHIC: Final = -3
_OF_HOLES: Final = ((_INSIDE,), (_SEVERAL,), (_ISOMORPHIC,))
"""What frames begin with that are not of the grammar by itself."""


class Inside(NamedTuple):
    """A parse that is inside of a hole."""

    hole: int
    stack: int
    """That of the machine that fills the hole."""
    continuation: int


class IsomorphicParses(NamedTuple):
    """All parses are inside of holes, in isomorphic rows; the row of the state is the first's."""

    parses: tuple[Inside, ...]
    maps: tuple[Isomorphism, ...]
    """From the row of the first to that of each."""


class CompositeStacks(GrammarStacks):
    """Numbers the stacks of a grammar and those of its holes."""

    def __init__(self, most: int, fillings: Sequence[PushdownMachine]) -> None:
        super().__init__(most)
        self._fillings = fillings
        # Each stack that is not of the grammar alone is in one of these three, for good: they say
        # again what its frame does, in a form to be read.
        self.inside: dict[int, Inside] = {}
        """By stack the one parse."""
        self.several: dict[int, Mapping[int, int]] = {}
        """By stack all parses: the continuation of each state, that of END where the text may end.
        Calls and returns are among them."""
        self.isomorphic: dict[int, IsomorphicParses] = {}
        """By stack all parses."""

    def is_of_grammar(self, number: int) -> bool:
        """Whether no parse is inside of a hole."""
        return self.frames[number][:1] not in _OF_HOLES

    def of_inside(self, inside: Inside) -> int:
        """The stack of one parse that is inside of a hole."""
        number = self.of((_INSIDE, *inside))
        if number not in self.inside:
            self.inside[number] = inside
            # Compiled code judges keys and texts in the hole as the hole's own machine would.
            facts = self._fillings[inside.hole].parts.stacks.facts[inside.stack]
            self.facts[number] = facts
            if facts[KNOWLEDGE] == KNOWN:
                self.with_keys.append(number)
        return number

    def of_several(self, parses: Mapping[int, int]) -> int:
        """The stack of several parses, given by state."""
        ordered = sorted(parses.items())
        number = self.of((_SEVERAL, *(number for parse in ordered for number in parse)))
        self.several.setdefault(number, dict(ordered))
        return number

    def of_isomorphic(self, isomorphic: IsomorphicParses) -> int:
        """The stack of several parses in isomorphic rows."""
        frame = [number for parse in isomorphic.parses for number in parse]
        frame += [each.number for each in isomorphic.maps]
        number = self.of((_ISOMORPHIC, *frame))
        self.isomorphic.setdefault(number, isomorphic)
        return number

    def free_keys(self, number: int) -> set[bytes]:
        """The names of the innermost object that must not come again, so far.

        None but where one parse is inside of a hole. Where several are left, bytes are tried by
        their own machines, which know.
        """
        inside = self.inside.get(number)
        if inside is None:
            return set()
        return self._fillings[inside.hole].parts.stacks.free_keys(inside.stack)
