"""The search for assertions that make a formula hold and that can be realised together."""

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
from guided.runtime.depth import NestedCalls
from guided.runtime.work_budget import spend

__all__ = ["MAX_TRIES", "Literals", "Searches", "satisfy"]

MAX_TRIES: Final = 400
"""The most calls of ``realise`` in the full search for one formula."""
QUICK_TRIES: Final = 2
"""The most calls of ``realise`` in the quick search, which comes first."""
QUICK_CONTRADICTIONS: Final = 50
"""The most contradictory choices of literals in the quick search."""
CALLS_OF_A_CHOICE: Final = 4
"""Nested Python calls from one choice to the next inside it."""
Literals = dict[Leaf, bool]
"""Which assertions have to hold, and which have to fail."""
_Found = TypeVar("_Found")


class Searches:
    """Counts searches that gave up: what they might have found is left out of the language."""

    def __init__(self) -> None:
        self.num_incomplete = 0
        """How often values, names or completions may have been missed; it only grows."""
        self.num_missed = 0
        """Searches for members or items that gave up: the choice is refused, and others tried."""
        self.nesting = NestedCalls()
        """The nesting of choices, including those for inner values."""
        self.first_incomplete_node: SchemaNode | None = None
        """The innermost schema node in which a search first gave up."""


def satisfy(
    formula: Formula,
    formulas: Formulas,
    realise: Callable[[Literals], _Found | None],
    searches: Searches,
) -> _Found | None:
    """Return the result of ``realise`` for the first choice of literals that it does not refuse.

    ``realise`` gets literals under which the formula holds, which it must not change, and returns
    ``None`` to refuse them; then it has to refuse any larger choice too. The search is depth first
    over the formula's alternatives and cuts off contradictory literals. The first choice is often
    right, so a quick search tries a few complete ones; the full search also calls ``realise`` for
    incomplete ones, to cut off early. ``None`` if every choice was refused, or if a search gave up,
    which is counted in ``searches.num_incomplete``.
    """
    # ``realise`` may refuse a choice because its own search gave up: then the result is uncertain.
    missed = searches.num_missed
    quick = _Search(formulas, realise, searches, tries=QUICK_TRIES, checks_partial=False)
    found = quick.search([formula], [], {})
    gave_up = False
    if found is None and quick.gave_up:
        search = _Search(formulas, realise, searches, tries=MAX_TRIES, checks_partial=True)
        found = search.search([formula], [], {})
        gave_up = search.gave_up
    searches.num_incomplete += found is None and (gave_up or searches.num_missed > missed)
    return found


class _Search(Generic[_Found]):
    """One search through the choices of a formula, started by one call of ``search``."""

    def __init__(
        self,
        formulas: Formulas,
        realise: Callable[[Literals], _Found | None],
        searches: Searches,
        *,
        tries: int,
        checks_partial: bool,
    ) -> None:
        self.formulas = formulas
        self.realise = realise
        self.searches = searches
        self.tries = tries
        """How often ``realise`` may still be called; negative once the search has given up."""
        self.checks_partial = checks_partial
        """Whether ``realise`` is also called while choices are open, which is the full search."""
        self.contradictions = 0
        """How often chosen literals contradicted each other; see ``_count_contradiction``."""
        self._has_looked_ahead = False
        """Whether the parts of all choices were tried once, which ``search`` does only once."""

    @property
    def gave_up(self) -> bool:
        """Whether tries ran out: a result may have been missed."""
        return self.tries < 0

    def search(
        self, agenda: list[Formula], choices: list[AnyOf], literals: Literals
    ) -> _Found | None:
        """Return the result of ``realise`` for a choice under which all formulas given hold.

        ``agenda`` are formulas to be taken apart, ``choices`` alternatives to choose from, and
        ``literals`` those chosen so far. ``agenda`` is emptied, and ``literals`` are added to.
        ``None`` if literals contradict each other, if ``realise`` refuses, or if tries ran out.
        """
        more: list[AnyOf] = []
        while agenda:
            formula = agenda.pop()
            if isinstance(formula, Constant):
                if not formula.value:
                    return None
            elif isinstance(formula, AllOf):
                agenda.extend(reversed(formula.parts))
            elif isinstance(formula, AnyOf):
                more.append(formula)
            elif isinstance(formula, Leaf):
                # It is recorded as False: the leaf has to hold and to fail.
                if not literals.setdefault(formula, True):
                    self._count_contradiction()
                    return None
            else:
                assert isinstance(formula, Not), formula
                assert not isinstance(formula.item, SchemaNode), formula
                opposite = _push_negation(formula.item, self.formulas)
                if opposite is not None:
                    agenda.append(opposite)
                elif isinstance(formula.item, Leaf) and literals.setdefault(formula.item, False):
                    self._count_contradiction()
                    return None
        choices = [*choices, *more]
        spend(1 + 3 * len(choices))
        # Literals that were chosen may settle other choices as well.
        choices = [choice for choice in choices if not _is_settled(choice, literals)]
        # With choices left ``realise`` is called early: if it refuses, more literals will not
        # help, so the branch is cut off; if it accepts, that is no result yet.
        if self.checks_partial or not choices:
            self.tries -= 1
            spend(1 + len(literals))
            found = None if self.gave_up else self.realise(literals)
            if found is None or not choices:
                return found
        viable: dict[AnyOf, list[Formula]] = {}
        if self.checks_partial and len(choices) > 1 and not self._has_looked_ahead:
            # A choice that leaves nothing is better found now than below all the others.
            self._has_looked_ahead = True
            for choice in choices:
                viable[choice] = [part for part in choice.parts if self._is_viable(part, literals)]
                if not viable[choice]:
                    return None
        # The choice with the fewest parts first: it fails soonest, and branches least.
        choice = min(choices, key=lambda each: len(viable.get(each, each.parts)))
        others = [each for each in choices if each is not choice]
        parts = viable.get(choice, choice.parts)
        return self.searches.nesting.call(
            CALLS_OF_A_CHOICE, lambda: self._try_parts(parts, others, literals)
        )

    def _count_contradiction(self) -> None:
        """Count a contradiction; the quick search gives up after QUICK_CONTRADICTIONS.

        Its ``tries`` bound only complete choices. The full search spends a try at each branch, and
        must not give up for contradictions: no other search follows it.
        """
        self.contradictions += 1
        if not self.checks_partial and self.contradictions > QUICK_CONTRADICTIONS:
            self.tries = -1

    def _try_parts(
        self, parts: Iterable[Formula], others: list[AnyOf], literals: Literals
    ) -> _Found | None:
        """Return the result of the first part of a choice that has one.

        ``others`` are the choices that are still open; ``literals`` are not changed.
        """
        for part in parts:
            spend(len(literals) // 128)
            found = self.search([part], others, dict(literals))
            if found is not None or self.gave_up:
                return found
        return None

    def _is_viable(self, part: Formula, literals: Literals) -> bool:
        """Return whether one part of a choice is possible with the literals, by one try.

        The other choices are ignored; ``True`` if one try does not decide.
        """
        alone = _Search(self.formulas, self.realise, self.searches, tries=1, checks_partial=True)
        # Or each part would in turn look ahead from its own choices, without end.
        alone._has_looked_ahead = True
        spend(len(literals) // 128)
        found = alone.search([part], [], dict(literals))
        self.tries -= 1
        return found is not None or alone.gave_up


def _is_settled(choice: AnyOf, literals: Literals) -> bool:
    """Return whether one part of a choice is a literal that was already chosen."""
    for part in choice.parts:  # a plain loop: this runs for every choice at every branch
        if isinstance(part, Leaf):
            settled = literals.get(part) is True
        else:
            item = part.item if isinstance(part, Not) else None
            settled = isinstance(item, Leaf) and literals.get(item) is False
        if settled:
            return True
    return False


def _push_negation(formula: Formula, formulas: Formulas) -> Formula | None:
    """Return the negation of a formula with the negation pushed inside (De Morgan).

    A count becomes other counts. ``None`` for other assertions, whose negation is a literal.
    """
    if isinstance(formula, AllOf):
        return formulas.any_of(formulas.negate(part) for part in formula.parts)
    if isinstance(formula, AnyOf):
        return formulas.all_of(formulas.negate(part) for part in formula.parts)
    assert isinstance(formula, Leaf), formula
    assertion = formula.assertion
    if isinstance(assertion, MemberCount | ItemCount | Contains):
        low, high = assertion.low, assertion.high
        below = formulas.leaf(replace(assertion, low=0, high=low - 1)) if low > 0 else FALSE
        above = (
            FALSE if high is None else formulas.leaf(replace(assertion, low=high + 1, high=None))
        )
        return formulas.any_of([below, above])
    return None
