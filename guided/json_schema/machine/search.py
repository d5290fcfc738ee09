"""The search for a choice of assertions that makes a formula hold and that can be kept together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Generic, TypeVar

from guided.json_schema.formulas.assertions import Contains, ItemCount, MemberCount
from guided.json_schema.formulas.formula import (
    FALSE,
    AllOf,
    AnyOf,
    Constant,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
)
from guided.runtime.depth import Nesting
from guided.runtime.fuel import spend

__all__ = ["MAX_TRIES", "Literals", "Searches", "satisfy"]

MAX_TRIES: Final = 400
"""Choices tried for one formula before the search gives up."""
HASTY_TRIES: Final = 2
HASTY_CONTRADICTIONS: Final = 50
"""Contradictory choices of literals met before choices are also tried half-way."""
CALLS_OF_A_CHOICE: Final = 4
"""Calls from one choice to the next inside it."""
Literals = dict[Leaf, bool]
"""Which assertions have to hold, and which have to fail."""
_Found = TypeVar("_Found")


class Searches:
    """Counts the searches that gave up: what they might have found is left out of the language."""

    def __init__(self) -> None:
        self.incomplete = 0
        """Places where values, names or completions may have been missed; it only grows."""
        self.missed = 0
        """Searches for members or items that gave up, so that other choices may have to do."""
        self.nesting = Nesting()
        """The nesting of choices, including those for inner values."""
        self.node: SchemaNode | None = None
        """The innermost schema node in which a search first gave up."""


def satisfy(
    formula: Formula,
    formulas: Formulas,
    realise: Callable[[Literals], _Found | None],
    searches: Searches,
) -> _Found | None:
    """Return what ``realise`` makes of the first choice of literals that it does not refuse.

    The formula holds under every choice offered. If ``realise`` refuses some literals it has to
    refuse any more with them. The search goes depth first over the formula's alternatives, and cuts
    off literals that contradict each other and choices that are refused half-way. The choice at
    hand is often right, so the first whole choices are tried without half-way calls. ``None`` if
    every choice was refused, or if the search or one below it gave up, which is counted as
    incomplete. The literals passed to ``realise`` belong to the search: it must not change them.
    """
    # A search below that gave up leaves the result open: counted, so that it can be reported.
    missed = searches.missed
    hasty = _Search(formulas, realise, searches, tries=HASTY_TRIES, asks_early=False)
    found = hasty.branch([formula], [], {})
    gave_up = False
    if found is None and hasty.gave_up:
        search = _Search(formulas, realise, searches, tries=MAX_TRIES, asks_early=True)
        found = search.branch([formula], [], {})
        gave_up = search.gave_up
    searches.incomplete += found is None and (gave_up or searches.missed > missed)
    return found


class _Search(Generic[_Found]):
    """One search through the choices of a formula.

    ``branch`` is called once from outside; ``tries`` bounds everything that it calls in turn.
    """

    def __init__(
        self,
        formulas: Formulas,
        realise: Callable[[Literals], _Found | None],
        searches: Searches,
        *,
        tries: int,
        asks_early: bool,
    ) -> None:
        self.formulas = formulas
        self.realise = realise
        self.searches = searches
        self.tries = tries
        """How often ``realise`` may still be called; below 0 the search has given up."""
        self.asks_early = asks_early
        """Whether ``realise`` is also called half-way, with choices still open."""
        self.contradictions = 0
        self._propagated = False
        """Whether the parts of all choices were tried once; see ``branch``."""

    @property
    def gave_up(self) -> bool:
        return self.tries < 0

    def branch(
        self, agenda: list[Formula], choices: list[AnyOf], literals: Literals
    ) -> _Found | None:
        """Return what ``realise`` makes of the formulas in ``agenda`` and ``choices`` together.

        ``literals`` are those chosen so far, and are added to; ``agenda`` is used up. ``None``
        if they contradict each other, if ``realise`` refuses, or if tries ran out
        (``gave_up``).
        """
        while agenda:
            formula = agenda.pop()
            if isinstance(formula, Constant):
                if not formula.value:
                    return None
            elif isinstance(formula, AllOf):
                agenda.extend(reversed(formula.parts))
            elif isinstance(formula, AnyOf):
                choices = [*choices, formula]
            elif isinstance(formula, Leaf):
                # It is recorded as False: the leaf has to hold and to fail.
                if not literals.setdefault(formula, True):
                    self._note_contradiction()
                    return None
            else:
                assert isinstance(formula, Not), formula
                assert not isinstance(formula.item, SchemaNode), formula
                opposite = _negated(formula.item, self.formulas)
                if opposite is not None:
                    agenda.append(opposite)
                elif isinstance(formula.item, Leaf) and literals.setdefault(formula.item, False):
                    self._note_contradiction()
                    return None
        spend(1 + 3 * len(choices))
        # Literals that were chosen may settle other choices on the way.
        choices = [choice for choice in choices if not _is_settled(choice, literals)]
        # With choices left ``realise`` is called early: if it refuses, more literals will not
        # help, so the branch is cut off; if it accepts, that is no result yet.
        if self.asks_early or not choices:
            self.tries -= 1
            spend(1 + len(literals))
            found = None if self.gave_up else self.realise(literals)
            if found is None or not choices:
                return found
        viable: dict[AnyOf, list[Formula]] = {}
        if self.asks_early and len(choices) > 1 and not self._propagated:
            # A choice that leaves nothing is better found now than below all the others.
            self._propagated = True
            for choice in choices:
                viable[choice] = [part for part in choice.parts if self._is_viable(part, literals)]
                if not viable[choice]:
                    return None
        # The choice with the fewest parts first: it fails soonest, and branches least.
        choice = min(choices, key=lambda each: len(viable.get(each, each.parts)))
        others = [each for each in choices if each is not choice]
        parts = viable.get(choice, choice.parts)
        return self.searches.nesting.within(
            CALLS_OF_A_CHOICE, lambda: self._first_of(parts, others, literals)
        )

    def _note_contradiction(self) -> None:
        """Count literals that exclude each other; a hasty search gives up after many of them.

        A hasty search (``asks_early`` False) tries only whole choices, so ``tries`` does not bound
        how many contradict before one is whole. A search that calls early spends a try at each
        branch, and must not give up sooner because of these: what it misses is missed for good.
        """
        self.contradictions += 1
        if not self.asks_early and self.contradictions > HASTY_CONTRADICTIONS:
            self.tries = -1

    def _first_of(
        self, parts: Iterable[Formula], others: list[AnyOf], literals: Literals
    ) -> _Found | None:
        """Return the result of the first part of a choice that has one.

        Each part is tried with a copy of the literals, as ``branch`` adds to them.
        """
        for part in parts:
            found = self.branch([part], others, dict(literals))
            if found is not None or self.gave_up:
                return found
        return None

    def _is_viable(self, part: Formula, literals: Literals) -> bool:
        """Return whether a part of a choice can be kept with the literals, as one try shows.

        It is tried alone, once; ``True`` if that does not decide.
        """
        alone = _Search(self.formulas, self.realise, self.searches, tries=1, asks_early=True)
        # Or each part would in turn look ahead from its own choices, without end.
        alone._propagated = True
        found = alone.branch([part], [], dict(literals))
        self.tries -= 1
        return found is not None or alone.gave_up


def _is_settled(choice: AnyOf, literals: Literals) -> bool:
    """Return whether a literal that was already chosen makes one part of a choice hold.

    Only literals are looked at, so ``False`` may only mean that it is not obvious: the choice is
    then made.
    """
    for part in choice.parts:  # a plain loop: this runs for every choice at every branch
        if isinstance(part, Leaf):
            settled = literals.get(part) is True
        else:
            item = part.item if isinstance(part, Not) else None
            settled = isinstance(item, Leaf) and literals.get(item) is False
        if settled:
            return True
    return False


def _negated(formula: Formula, formulas: Formulas) -> Formula | None:
    """Return the opposite of a formula as a formula without a negation outside.

    ``None`` for an assertion without such an opposite: that it fails is then a literal.
    """
    if isinstance(formula, AllOf):
        return formulas.any_of(formulas.negate(part) for part in formula.parts)
    if isinstance(formula, AnyOf):
        return formulas.all_of(formulas.negate(part) for part in formula.parts)
    assert isinstance(formula, Leaf), formula
    about = formula.assertion
    if isinstance(about, MemberCount | ItemCount | Contains):
        low, high = about.low, about.high
        below = formulas.leaf(replace(about, low=0, high=low - 1)) if low > 0 else FALSE
        above = FALSE if high is None else formulas.leaf(replace(about, low=high + 1, high=None))
        return formulas.any_of([below, above])
    return None
