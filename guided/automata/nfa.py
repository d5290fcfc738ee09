"""Non-deterministic automata over code points (Thompson, CACM 11(6), 1968)."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.automata.codepoints import CodePoints
from guided.automata.fuel import spend
from guided.automata.regular import Alternate, Chars, Concat, End, Regular, Repeat, Start
from guided.errors import LimitExceededError

__all__ = ["MAX_NFA_STATES", "Nfa", "nfa_from_regular"]

MAX_NFA_STATES = 100_000


@dataclass(slots=True)
class Nfa:
    """States are indices; state 0 starts and ``final`` ends.

    ``starts`` and ``ends`` are empty moves that may be taken only at the start and at the end of
    the whole text.
    """

    moves: list[list[tuple[CodePoints, int]]] = field(default_factory=list)
    empties: list[list[int]] = field(default_factory=list)
    starts: list[list[int]] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)
    final: int = 0

    def add_state(self) -> int:
        """A new state without moves; raises LimitExceededError past MAX_NFA_STATES."""
        spend(1)
        if len(self.moves) >= MAX_NFA_STATES:
            raise LimitExceededError(
                f"the expression needs more than {MAX_NFA_STATES} states",
                limit=MAX_NFA_STATES,
                hint="lower the bounds of its repeats",
            )
        self.moves.append([])
        for edges in (self.empties, self.starts, self.ends):
            edges.append([])
        return len(self.moves) - 1


def nfa_from_regular(regular: Regular) -> Nfa:
    """The automaton of an expression; its size is that of the expression with repeats unrolled."""
    nfa = Nfa()
    nfa.final = _build(nfa, regular, nfa.add_state())
    return nfa


def _build(nfa: Nfa, node: Regular, start: int) -> int:
    """Lay ``node`` down behind ``start`` and return the state in which it ends."""
    match node:
        case Chars(chars):
            end = nfa.add_state()
            nfa.moves[start].append((chars, end))
            return end
        case Concat(parts):
            for part in parts:
                start = _build(nfa, part, start)
            return start
        case Alternate(options):
            end = nfa.add_state()
            for option in options:
                entry = nfa.add_state()
                nfa.empties[start].append(entry)
                nfa.empties[_build(nfa, option, entry)].append(end)
            return end
        case Repeat(item, low, high):
            return _build_repeat(nfa, item, low, high, start)
        case Start():
            end = nfa.add_state()
            nfa.starts[start].append(end)
            return end
        case End():
            end = nfa.add_state()
            nfa.ends[start].append(end)
            return end


def _build_repeat(nfa: Nfa, item: Regular, low: int, high: int | None, start: int) -> int:
    # x{2,4} -> x x (x (x)?)?      x{2,} -> x x x*
    for _ in range(low):
        spend(1)
        start = _build(nfa, item, start)
    end = nfa.add_state()
    if high is None:
        loop = nfa.add_state()
        nfa.empties[start].append(loop)
        nfa.empties[_build(nfa, item, loop)].append(loop)
        nfa.empties[loop].append(end)
        return end
    for _ in range(high - low):
        spend(1)
        nfa.empties[start].append(end)
        # A state of its own: the item may loop back to where it began.
        entry = nfa.add_state()
        nfa.empties[start].append(entry)
        start = _build(nfa, item, entry)
    nfa.empties[start].append(end)
    return end
