"""The search for members that complete an object so that chosen assertions hold or fail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from math import inf
from typing import Final

from guided.json_schema.formulas.assertions import HasMember, MemberCount, Members, Names
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Leaf
from guided.json_schema.machine.name_classes import NameClass
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.json_schema.machine.search import Literals
from guided.json_schema.machine.stacks import ObjectFrame
from guided.runtime.work_budget import spend

__all__ = ["ObjectCompletion"]

MAX_TRIED_BREAKS: Final = 300
"""The most members that one search tries in order that an assertion fails which has to fail."""
MAX_COMPLETION_MEMBERS: Final = 1_000
"""The most additional names in the completion of one object."""
_SUCH_MEMBERS: Final = "members in one object that the schema does not name"
_NAMES_AT_ONCE: Final = 16
"""Names tried between two times that work is counted; most take a quarter of a microsecond."""

_NO_OTHER: Final = object()


class ObjectCompletion:
    """The search for members that complete an open object, for one choice of literals.

    The ``Members`` and ``Names`` in ``literals`` are leaves of ``frame.goals``, so the classes of
    their name space decide them. Use it once, for ``text``. ``named`` and ``free`` are the members
    chosen so far: backtracking has to leave both as they were. ``tries`` bounds the whole search.
    """

    def __init__(self, objects: ObjectRules, frame: ObjectFrame, literals: Literals) -> None:
        self.objects = objects
        self.members = objects.members
        self.formulas = objects.formulas
        self.frame = frame
        self.order = objects.orders[frame.order]
        self.literals = literals
        self.members_to_hold = tuple(
            leaf
            for leaf, holds in literals.items()
            if holds and isinstance(leaf.assertion, Members)
        )
        """The assertions about members that have to hold."""
        self.tries = MAX_TRIED_BREAKS
        self.named: dict[str, Formula] = {}
        """The members chosen so far that the schema spells out, with what their values fit."""
        self.free: dict[bytes, tuple[Formula, NameClass]] = {}
        """The other members chosen so far: by key what the value fits, and the class of the key."""

    def text(self) -> bytes | None:
        """Return the members and the closing brace; ``None`` if no such members were found.

        Chooses the required members, then those that break assertions, then as many more as counts
        require. To be called once: it sets the lists that the other methods read.
        """
        spend(1 + len(self.literals))
        assertions = [(leaf, leaf.assertion, holds) for leaf, holds in self.literals.items()]
        self.names_to_hold = [a for _, a, holds in assertions if holds and isinstance(a, Names)]
        self.names_to_break = [
            a for _, a, holds in assertions if not holds and isinstance(a, Names)
        ]
        self.banned = {
            a.name for _, a, holds in assertions if not holds and isinstance(a, HasMember)
        }
        self.counts = [a for _, a, holds in assertions if holds and isinstance(a, MemberCount)]
        for _, assertion, holds in assertions:
            if isinstance(assertion, HasMember):
                has = self.objects.has(self.frame, assertion.name)
                if (has and not holds) or (
                    holds and not has and not self._add_named(assertion.name)
                ):
                    return None
        leaves = [
            leaf for leaf, a, holds in assertions if not holds and isinstance(a, Members | Names)
        ]
        return self._break_all(leaves)

    def _break_all(self, leaves: list[Leaf]) -> bytes | None:
        """Return the text in which each of these assertions is broken by some member.

        ``None`` if there is none, or too many ways were tried, which is counted. The iterators
        change ``named`` and ``free`` and undo that when they advance, so only the last of them may
        advance.
        """
        if not leaves:
            return self._fill_and_spell()
        # An iterator of ways to break each assertion.
        iterators = [self._break(leaves[0])]
        while True:
            if next(iterators[-1], _NO_OTHER) is _NO_OTHER:
                iterators.pop()
                if not iterators:
                    return None
            elif len(iterators) < len(leaves):
                iterators.append(self._break(leaves[len(iterators)]))
                continue
            elif (found := self._fill_and_spell()) is not None:
                return found
            if self.tries < 0:
                self.objects.values.searches.num_missed += 1
                return None
            self.tries -= 1

    def _fill_and_spell(self) -> bytes | None:
        """Add as many members as counts require and return the text; ``None`` if that fails.

        Members already written have lowered ``counts``. If it fails, ``named`` and ``free`` stay.
        """
        before = (dict(self.named), dict(self.free))
        text = None
        low = max([bound.low for bound in self.counts], default=0)
        high = min([each.high for each in self.counts if each.high is not None], default=inf)
        if low <= high and self._fill(low) and len(self.named) + len(self.free) <= high:
            text = self._spell()
        if text is None:
            self.named, self.free = before
        return text

    def _spell(self) -> bytes | None:
        """Return the text of the members and the closing brace; ``None`` if one has no value.

        Additional names come after those of the schema, as the machine reads them.
        """
        parts: list[bytes] = []
        spend(len(self.named) + len(self.free))
        # Names are chosen in any order, and written in that of the schema.
        in_order = sorted(self.named, key=self.order.index.__getitem__)
        for key, formula in chain(
            ((json_literal(name), self.named[name]) for name in in_order),
            ((b'"' + key + b'"', formula) for key, (formula, _) in self.free.items()),
        ):
            value = self.objects.values.text(formula)
            if value is None:
                return None
            parts.append(key + b":" + value)
        comma = b"," if self.frame.has_members and parts else b""
        return comma + b",".join(parts) + b"}"

    def _add_named(self, name: str, also: Formula = TRUE) -> bool:
        """Add a member of this name whose value also fits ``also``; return whether there is one.

        If the member was already chosen, only ``also`` is added to its formula. ``False`` changes
        nothing. The name has to be in the order of the object.
        """
        if name not in self.named and not self._may_add(name):
            return False
        formula = self.named.get(name)
        if formula is None:
            formula = (
                self.members.value_formula(self.members_to_hold, name)
                if self.members_to_hold
                else TRUE
            )
        formula = self.formulas.all_of([formula, also])
        if self.objects.values.text(formula) is None:
            return False
        self.named[name] = formula
        return True

    def _may_add(self, name: str) -> bool:
        """Return whether a member with this name may be added.

        It must come after those written, can be spelled, and fits all ``Names`` that have to hold.
        """
        return (
            not self.order.is_passed(self.frame.names_passed, self.order.index[name])
            and name not in self.banned
            and self.objects.scalars.unavailable_bytes.isdisjoint(json_literal(name))
            and all(self.members.name_fits(assertion, name) for assertion in self.names_to_hold)
        )

    def _add_free(self, most: int) -> None:
        """Add members with additional names until there are ``most``, or no class has any left."""
        taken = self._taken_names()
        for class_id, found, formula in self._usable_classes():
            unused = self._unused_additional_names(class_id, taken)
            # There may be more already, where so many assertions had to be broken.
            for key in islice(unused, max(0, most - len(self.free))):
                self.free[key] = formula, found
            if len(self.free) >= most:
                return

    def _try_free(self, members: Leaf | None, names: Names | None) -> Iterator[None]:
        """Add a member with an additional name that breaks an assertion, of each class in turn.

        Its value breaks the assertion ``members``, or its name breaks ``names``. The member is
        removed when the iterator advances.
        """
        taken = self._taken_names()
        for class_id, found, formula in self._usable_classes():
            if members is not None:
                opposite = self.formulas.negate(self.members.leaf_formula(members, found))
                formula = self.formulas.all_of([formula, opposite])
            if names is not None and self.members.name_fits(names, found):
                continue
            if formula is FALSE or self.objects.values.text(formula) is None:
                continue
            key = next(self._unused_additional_names(class_id, taken), None)
            if key is not None:
                self.free[key] = formula, found
                yield
                del self.free[key]

    def _usable_classes(self) -> Iterator[tuple[int, NameClass, Formula]]:
        """Yield the classes of additional names that further members may have.

        Each with its id, and the formula that values of such members have to fit. Their names fit
        all ``names_to_hold``, but a class may have no unused name left. Classes that break the
        greatest number of ``names_to_break`` come first, as one member may break several.
        """
        space = self.members.name_space(self.frame.goals)
        spend(len(space.classes) * (1 + len(self.names_to_break)))
        for class_id, found in sorted(enumerate(space.classes), key=self._count_unbroken):
            spend(1 + len(self.names_to_hold) + len(self.members_to_hold))
            if all(self.members.name_fits(assertion, found) for assertion in self.names_to_hold):
                formula = (
                    self.members.value_formula(self.members_to_hold, found)
                    if self.members_to_hold
                    else TRUE
                )
                if formula is not FALSE and self.objects.values.text(formula) is not None:
                    yield class_id, found, formula

    def _taken_names(self) -> set[bytes]:
        """Return the names that a further member with an additional name must not have."""
        written = self.objects.stacks.iterate_names(self.frame.additional_set)
        taken = {*written, *self.order.encoded, *self.free}
        spend(1 + len(taken) // 10)
        return taken

    def _unused_additional_names(self, class_id: int, taken: set[bytes]) -> Iterator[bytes]:
        """Yield names of a class that are not ``taken``.

        A search that gave up is counted only if the caller requests more names than were found.
        """
        space = self.members.name_space(self.frame.goals)
        yield from space.unused_names(class_id, taken)
        self.objects.values.searches.num_missed += space.gave_up(class_id)

    def _count_unbroken(self, candidate: tuple[int, NameClass]) -> int:
        """Return how many of ``names_to_break`` the names of a class do not break."""
        fits = self.members.name_fits
        return sum(fits(assertion, candidate[1]) for assertion in self.names_to_break)

    def _break(self, leaf: Leaf) -> Iterator[None]:
        """Break a ``Names`` or ``Members`` in one way after another; undo each before the next."""
        assertion = leaf.assertion
        if isinstance(assertion, Names):
            return self._break_names(assertion)
        return self._break_members(leaf)

    def _break_members(self, leaf: Leaf) -> Iterator[None]:
        """Break a ``Members`` by each member, chosen or new, whose value may not fit it."""
        for name in self._names_to_try():
            opposite = self.formulas.negate(self.members.leaf_formula(leaf, name))
            before = self.named.get(name)
            if opposite is not FALSE and self._add_named(name, opposite):
                yield
                self._restore(name, before)
        for key, (formula, found) in list(self.free.items()):
            opposite = self.formulas.negate(self.members.leaf_formula(leaf, found))
            more = self.formulas.all_of([formula, opposite])
            if self.objects.values.text(more) is not None:
                self.free[key] = more, found
                yield
                self.free[key] = formula, found
        yield from self._try_free(leaf, None)

    def _break_names(self, assertion: Names) -> Iterator[None]:
        """Break a ``Names`` by each member, chosen or new, whose name does not fit it."""
        fits = self.members.name_fits
        # An additional name that was added before may break it: then nothing has to be added.
        if any(not fits(assertion, found) for _, found in self.free.values()):
            yield
            return
        for name in self._names_to_try():
            before = self.named.get(name)
            if not fits(assertion, name) and self._add_named(name):
                yield
                self._restore(name, before)
        yield from self._try_free(None, assertion)

    def _restore(self, name: str, formula: Formula | None) -> None:
        """Set the formula of a name in ``named`` back; ``None`` removes the member."""
        if formula is None:
            del self.named[name]
        else:
            self.named[name] = formula

    def _fill(self, low: int) -> bool:
        """Add members until ``low`` of them are added; returns whether that many were found.

        Also on ``False`` members may have been added: the caller removes them.
        """
        # Names that the schema spells out first: they are known, so no search exceeds its budget.
        for name in self._unchosen_names():
            if len(self.named) + len(self.free) >= low:
                return True
            self._add_named(name)
        if len(self.named) + len(self.free) < low:
            self._add_free(min(low - len(self.named), MAX_COMPLETION_MEMBERS))
        is_enough = len(self.named) + len(self.free) >= low
        if not is_enough and len(self.free) >= MAX_COMPLETION_MEMBERS:
            self.objects.values.note_exceeded(MAX_COMPLETION_MEMBERS, _SUCH_MEMBERS)
        return is_enough

    def _names_to_try(self) -> Iterator[str]:
        """Yield the names chosen so far, then those of the schema that may still be."""
        for tried, name in enumerate(chain([*self.named], self._unchosen_names()), 1):
            if not tried % _NAMES_AT_ONCE:
                spend(_NAMES_AT_ONCE // 4)
            yield name

    def _unchosen_names(self) -> Iterator[str]:
        """Yield names of the schema that may still come and are not chosen, in its order.

        ``named`` is checked for each in turn, so it may change meanwhile.
        """
        names = self.order.names
        for index in self.order.indices_ahead(self.frame.names_passed):
            if names[index] not in self.named:
                yield names[index]
