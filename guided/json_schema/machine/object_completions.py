"""Members that complete an object so that a choice of its assertions comes true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from guided.json_schema.formulas.assertions import Has, MemberCount, Members, Names
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Leaf
from guided.json_schema.machine.name_classes import NameClass
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.search import Literals
from guided.json_schema.machine.stacks import ObjectFrame
from guided.runtime.fuel import spend

__all__ = ["ObjectCompletion"]

MAX_FAILURES: Final = 300
"""The most ways tried to make assertions fail that have to fail."""
MAX_OWED_MEMBERS: Final = 1_000
"""The most names made up for one object."""

_NO_OTHER: Final = object()


class ObjectCompletion:
    """The search for members of an open object that make a choice of assertions come true.

    There is one object for each choice, used once. ``named`` and ``free`` hold what was chosen so
    far: a way that is given up has to leave both as it found them. ``tries`` bounds the whole
    search.
    """

    def __init__(self, objects: ObjectRules, frame: ObjectFrame, literals: Literals) -> None:
        self.objects = objects
        self.members = objects.members
        self.formulas = objects.formulas
        self.frame = frame
        self.order = objects.orders[frame.order]
        self.literals = literals
        self.holding = tuple(
            leaf for leaf, kept in literals.items() if kept and isinstance(leaf.assertion, Members)
        )
        """The assertions about members that have to hold."""
        self.tries = MAX_FAILURES
        self.named: dict[str, Formula] = {}
        """The members chosen so far that the schema spells out, with what their values fit."""
        self.free: dict[bytes, tuple[Formula, NameClass]] = {}
        """The other members chosen so far: by key what the value fits, and the class of the key."""

    def text(self) -> bytes | None:
        """Return the members owed, then those that make an assertion fail, then further ones.

        Includes the closing brace; ``None`` if no members were found. To be called once, before
        anything else: it sets the lists that the other methods read. Names that have to be there
        come first, as there is no choice about them.
        """
        spend(1 + len(self.literals))
        abouts = [(leaf, leaf.assertion, kept) for leaf, kept in self.literals.items()]
        self.names = [a for _, a, kept in abouts if kept and isinstance(a, Names)]
        self.misnames = [a for _, a, kept in abouts if not kept and isinstance(a, Names)]
        self.banned = {a.name for _, a, kept in abouts if not kept and isinstance(a, Has)}
        self.counts = [a for _, a, kept in abouts if kept and isinstance(a, MemberCount)]
        for _, about, kept in abouts:
            if isinstance(about, Has):
                has = self.objects.has(self.frame, about.name)
                if (has and not kept) or (kept and not has and not self._add_named(about.name)):
                    return None
        failing = [leaf for leaf, a, kept in abouts if not kept and isinstance(a, Members | Names)]
        return self._with_failing(failing)

    def _with_failing(self, failing: list[Leaf]) -> bytes | None:
        """Return the text with all these assertions made to fail, each by some member.

        ``None`` if no ways to do so go together, or too many were tried, which is counted. The
        iterators change ``named`` and ``free``, so only the last of them may advance: so each
        undoes only its own step.
        """
        if not failing:
            return self._filled()
        # An iterator of ways for each assertion that has to fail; each undoes its own last step.
        ways = [self._failures(failing[0])]
        while True:
            if next(ways[-1], _NO_OTHER) is _NO_OTHER:
                ways.pop()
                if not ways:
                    return None
            elif len(ways) < len(failing):
                ways.append(self._failures(failing[len(ways)]))
                continue
            elif (found := self._filled()) is not None:
                return found
            if self.tries < 0:
                self.objects.values.searches.missed += 1
                return None
            self.tries -= 1

    def _filled(self) -> bytes | None:
        """Return the members with as many more as counts require, and the brace; ``None`` for none.

        ``named`` and ``free`` keep what it added where it finds a text; else they are as before.
        """
        # Filling may add members and still fail; the next way begins without them.
        before = (dict(self.named), dict(self.free))
        text = None
        if self._fill(max((count.low for count in self.counts), default=0)):
            number = len(self.named) + len(self.free)
            if all(count.high is None or number <= count.high for count in self.counts):
                text = self._spelled()
        if text is None:
            self.named, self.free = before
        return text

    def _spelled(self) -> bytes | None:
        """Return the members found and the closing brace; ``None`` if one of them has no value.

        Free names come after those of the schema, as the machine reads them.
        """
        parts: list[bytes] = []
        spend(len(self.named) + len(self.free))
        # Names are searched for in any order, and written in that of the schema.
        placed = sorted(self.named, key=self.order.index.__getitem__)
        for key, formula in chain(
            ((json_key(name), self.named[name]) for name in placed),
            ((b'"' + key + b'"', formula) for key, (formula, _) in self.free.items()),
        ):
            value = self.objects.values.text(formula)
            if value is None:
                return None
            parts.append(key + b":" + value)
        comma = b"," if self.frame.begun and parts else b""
        return comma + b",".join(parts) + b"}"

    def _add_named(self, name: str, also: Formula = TRUE) -> bool:
        """Give the object a member of this name, if it may have one; returns whether it has it.

        Its value also fits ``also``, besides what is already chosen for it. If it returns
        ``False`` nothing has changed. The name has to be in the order of the object.
        """
        if name not in self.named and not self._may_have(name):
            return False
        formula = self.named.get(name)
        if formula is None:
            formula = self.members.of_all(self.holding, name) if self.holding else TRUE
        formula = self.formulas.all_of([formula, also])
        if self.objects.values.text(formula) is None:
            return False
        self.named[name] = formula
        return True

    def _may_have(self, name: str) -> bool:
        """Return whether a spelled-out name may still come, be spelled, and fit as names must.

        In the order of the schema a name before the last one written may not.
        """
        return (
            not self.objects.is_passed(self.frame, self.order.index[name])
            and name not in self.banned
            and self.objects.scalars.missing.isdisjoint(json_key(name))
            and all(self.members.name_fits(about, name) for about in self.names)
        )

    def _add_free(self, most: int) -> bool:
        """Give the object members with similar names of its own, up to ``most``.

        Their names are of the first class that has any left; ``False`` if none has. It may add
        fewer, where the class ends: callers call again, and the next class is used.
        """
        for number, found, formula in self._usable_classes():
            keys = list(islice(self._fresh_names(number), most))
            for key in keys:
                self.free[key] = formula, found
            if keys:
                return True
        return False

    def _adding_free(self, also: Leaf | None, misnamed: Names | None) -> Iterator[None]:
        """Add a member with a free name that makes an assertion fail, of each class in turn.

        Its value breaks the assertion about members ``also``, or its name the one ``misnamed``.
        """
        for number, found, formula in self._usable_classes():
            if also is not None:
                opposite = self.formulas.negate(self.members.of_one(also, found))
                formula = self.formulas.all_of([formula, opposite])
            if misnamed is not None and self.members.name_fits(misnamed, found):
                continue
            if formula is FALSE or self.objects.values.text(formula) is None:
                continue
            key = next(self._fresh_names(number), None)
            if key is not None:
                self.free[key] = formula, found
                yield
                del self.free[key]

    def _usable_classes(self) -> Iterator[tuple[int, NameClass, Formula]]:
        """Classes of free names for further members: number, class, formula of their values.

        First those whose names make most of ``misnames`` fail, as one member may serve several of
        them.
        """
        space = self.members.space(self.frame.goals)
        for number, found in sorted(enumerate(space.classes), key=self._unhelpful):
            if all(self.members.name_fits(about, found) for about in self.names):
                formula = self.members.of_all(self.holding, found) if self.holding else TRUE
                if formula is not FALSE and self.objects.values.text(formula) is not None:
                    yield number, found, formula

    def _fresh_names(self, number: int) -> Iterator[bytes]:
        """Yield names of a class that the object does not have.

        Names in ``free`` when it begins are taken. A search that gave up counts as missed only if
        the caller requests more names than were found.
        """
        keys = self.objects.stacks.keys(self.frame.keys)
        taken = {*keys, *self.order.spelled, *self.free}
        space = self.members.space(self.frame.goals)
        yield from space.fresh(number, taken)
        self.objects.values.searches.missed += space.gave_up(number)

    def _unhelpful(self, numbered: tuple[int, NameClass]) -> int:
        """Return how many of the assertions that must fail a class would leave to others."""
        return sum(self.members.name_fits(about, numbered[1]) for about in self.misnames)

    def _failures(self, leaf: Leaf) -> Iterator[None]:
        """Make an assertion fail in one way after another, each undone before the next.

        It is about ``Names`` or ``Members``; ``text`` handles all others.
        """
        about = leaf.assertion
        if isinstance(about, Names):
            return self._misnamings(about)
        return self._violations(leaf)

    def _violations(self, leaf: Leaf) -> Iterator[None]:
        """Members, chosen or new, that do not fit what the assertion asks of them.

        After each yield what was changed is put back.
        """
        for name in [*self.named, *self._unused()]:
            opposite = self.formulas.negate(self.members.of_one(leaf, name))
            before = self.named.get(name)
            if opposite is not FALSE and self._add_named(name, opposite):
                yield
                self._restore(name, before)
        for key, (formula, found) in list(self.free.items()):
            opposite = self.formulas.negate(self.members.of_one(leaf, found))
            more = self.formulas.all_of([formula, opposite])
            if self.objects.values.text(more) is not None:
                self.free[key] = more, found
                yield
                self.free[key] = formula, found
        yield from self._adding_free(leaf, None)

    def _misnamings(self, about: Names) -> Iterator[None]:
        """Members whose names do not fit; after each yield what was changed is put back.

        Free names that were chosen are not replaced: another member is added.
        """
        fits = self.members.name_fits
        # A free name that was added before may do.
        if any(not fits(about, found) for _, found in self.free.values()):
            yield
            return
        for name in [*self.named, *self._unused()]:
            before = self.named.get(name)
            if not fits(about, name) and self._add_named(name):
                yield
                self._restore(name, before)
        yield from self._adding_free(None, about)

    def _restore(self, name: str, formula: Formula | None) -> None:
        """Put back what ``named`` had for a name before ``_add_named``; ``None`` for nothing."""
        if formula is None:
            del self.named[name]
        else:
            self.named[name] = formula

    def _fill(self, low: int) -> bool:
        """Add members until there are ``low``; returns whether that many were found.

        What it added stays even if it returns ``False``: ``_filled`` puts back what was before.
        """
        # Names that the schema spells out first: they are known, so no search can run out of fuel.
        for name in self._unused():
            if len(self.named) + len(self.free) >= low:
                return True
            self._add_named(name)
        while (owed := low - len(self.named) - len(self.free)) > 0:
            if len(self.free) >= MAX_OWED_MEMBERS:
                self.objects.values.too_long = True
                return False
            if not self._add_free(min(owed, MAX_OWED_MEMBERS - len(self.free))):
                return False
        return True

    def _unused(self) -> Iterator[str]:
        """Yield names of the schema that may still come and are not chosen, in its order.

        ``named`` is checked for each in turn, so it may change meanwhile.
        """
        names = self.order.names
        for place in self.objects.ahead(self.frame):
            if names[place] not in self.named:
                yield names[place]
