"""Stacks of grammars with holes: which parses of the text are inside holes, and where.

A frame is a tuple of numbers. Those of a grammar alone are continuations, which are never negative;
others begin with their kind::

    (INSIDE, hole, stack of its machine, continuation)              one parse, inside a hole
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
"""How frames that are not of the grammar alone begin."""


class Inside(NamedTuple):
    """A parse that is inside a hole."""

    hole: int
    stack: int
    """That of the machine that fills the hole."""
    continuation: int


class IsomorphicParses(NamedTuple):
    """All parses are inside holes, in isomorphic rows; the row of the state is the first's."""

    parses: tuple[Inside, ...]
    maps: tuple[Isomorphism, ...]
    """From the row of the first to that of each."""


class CompositeStacks(GrammarStacks):
    """Numbers the stacks of a grammar and those of its holes."""

    def __init__(self, most: int, fillings: Sequence[PushdownMachine]) -> None:
        super().__init__(most)
        self._fillings = fillings
        # Each stack that is not of the grammar alone is in one of these three, and stays there:
        # they repeat what its frame says, in a readable form.
        self.inside: dict[int, Inside] = {}
        """The only parse, by stack."""
        self.several: dict[int, Mapping[int, int]] = {}
        """All parses, by stack: the continuation of each state, and that of END if the text may
        end. Calls and returns are among them."""
        self.isomorphic: dict[int, IsomorphicParses] = {}
        """All parses, by stack."""

    def is_of_grammar(self, number: int) -> bool:
        """Return whether no parse is inside a hole."""
        return self.frames[number][:1] not in _OF_HOLES

    def of_inside(self, inside: Inside) -> int:
        """Return the stack of a single parse inside a hole."""
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
        """Return the stack of several parses, given by state."""
        ordered = sorted(parses.items())
        number = self.of((_SEVERAL, *(number for parse in ordered for number in parse)))
        self.several.setdefault(number, dict(ordered))
        return number

    def of_isomorphic(self, isomorphic: IsomorphicParses) -> int:
        """Return the stack of several parses in isomorphic rows."""
        frame = [number for parse in isomorphic.parses for number in parse]
        frame += [each.number for each in isomorphic.maps]
        number = self.of((_ISOMORPHIC, *frame))
        self.isomorphic.setdefault(number, isomorphic)
        return number

    def free_keys(self, number: int) -> set[bytes]:
        """Return the names of the innermost object so far that must not come again.

        Empty unless a single parse is inside a hole. If several are left, their own machines,
        which know these names, try each byte.
        """
        inside = self.inside.get(number)
        if inside is None:
            return set()
        return self._fillings[inside.hole].parts.stacks.free_keys(inside.stack)
