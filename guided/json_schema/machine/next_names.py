"""Names that may come next in an object.

Names that the schema does not spell out come by *class*: those of one class match the same patterns
and fit the same formulas (``NameSpace``), so what holds for one holds for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from guided.json_schema.formulas.assertions import Members
from guided.json_schema.formulas.formula import FALSE, Leaf
from guided.json_schema.formulas.values import read_value
from guided.json_schema.machine.awaited_values import AwaitedValues
from guided.json_schema.machine.objects import ObjectRules, Plain
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.stacks import ObjectFrame

__all__ = ["NextNames"]


class NextNames:
    """The names that leave a completion, and the stacks of their values.

    ``stack`` is always that of an object between two members, except for ``after_names``, which
    takes any. ``None`` is for a name that must not be written, or without a known completion.
    """

    def __init__(self, awaited: AwaitedValues) -> None:
        self.awaited: Final = awaited
        self.ends: Final = awaited.ends
        self.objects: Final = awaited.objects
        self.members: Final = awaited.objects.members
        self.values: Final = awaited.values
        self.scalars: Final = awaited.truths.scalars
        self.stacks: Final = awaited.stacks
        self._after_names: dict[int, int] = {}
        self._named: dict[tuple[tuple[Leaf, ...], int], _PossibleNames] = {}
        """By the assertions about members of a plain object, and its order."""
        self._classes: dict[Plain, frozenset[int]] = {}
        """The classes of names that fit a plain object, even those whose names are all taken."""

    def name_written(self, stack: int, name: str) -> int | None:
        """Return the stack of the value of a name that the schema spells out."""
        frame = self._object(stack)
        return self.awaited.enter(stack, self.objects.name_written(frame, name))

    def class_written(self, stack: int, number: int, key: bytes | None) -> int | None:
        """Return the stack of the value of another name, of one class.

        ``key`` is as for ``ObjectRules.class_written``; ``None`` if no such name leaves a
        completion.
        """
        frame = self._object(stack)
        return self.awaited.enter(stack, self.objects.class_written(frame, number, key))

    def after_names(self, stack: int) -> int:
        """Return the stack in which no spelled-out name is left; other names may follow as here.

        Stacks that differ only in how many of the spelled-out names were written lead to the same
        one, and so share masks. It is ``stack`` itself if names still make a difference, see
        ``_without_names``.
        """
        found = self._after_names.get(stack)
        if found is None:
            found = self._after_names[stack] = self._without_names(stack)
        return found

    def _without_names(self, stack: int) -> int:
        """Compute ``after_names``; the stack itself if names still make a difference.

        They do if names may come in any order, or if the object owes members.
        """
        frame = self.stacks.frames[stack]
        if not isinstance(frame, ObjectFrame) or self.objects.any_order:
            return stack
        plain = self.objects.plain(frame)
        if plain is None or self.objects.owed(frame, plain) is not None:
            return stack
        written = len(self.objects.orders[frame.order].names)
        after = ObjectFrame(frame.goals, frame.must, frame.order, written, frame.keys, begun=True)
        return self.stacks.enter(after, self.stacks.parents[stack])

    def is_rare(self, stack: int, number: int) -> bool:
        """Return whether a class has only a limited number of names."""
        return not self.members.space(self._object(stack).goals).is_endless(number)

    def candidates(self, stack: int) -> tuple[tuple[str, ...], frozenset[int]]:
        """Return the names that may come next, and the classes of other names that may.

        Only for the stack of an object. Names come in the order of the schema.
        """
        frame = self._object(stack)
        plain = self.objects.plain(frame)
        if plain is None:
            return self._candidates(stack, frame)
        return self._candidates_of_plain(frame, plain)

    def _candidates(self, stack: int, frame: ObjectFrame) -> tuple[tuple[str, ...], frozenset[int]]:
        """``candidates`` of an object that is not plain: each name and class is tried.

        If none is left and the object may not close, the known completion provides one
        (``_candidate_of_search``).
        """
        names = tuple(
            name
            for name in self._spellable_ahead(frame)
            if self.name_written(stack, name) is not None
        )
        classes = frozenset(
            number
            for number in range(len(self.members.space(frame.goals).classes))
            if self.objects.has_fresh_name(frame, number)
            and self.class_written(stack, number, None) is not None
        )
        # The stack has a completion, or it would not have been entered: so there must be a name.
        if not names and not classes and not self.awaited.may_close(stack):
            return self._candidate_of_search(stack, frame)
        return names, classes

    def _candidate_of_search(
        self, stack: int, frame: ObjectFrame
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """Return the name that begins the known completion, if likely truth vectors miss it.

        Only for a stack that has a completion and may not close, so that it has a member first. The
        search for it gave the object only names that it may have, so both assertions hold.
        """
        members = read_value(b"{" + self.ends.shortest(stack).lstrip(b","))
        name, value = next(iter(members.items()))
        if name in self.objects.orders[frame.order].index:
            pending = self.objects.name_written(frame, name)
            assert pending is not None, name
            found = self.awaited.enter_by_value(stack, pending, value) is not None
            return ((name,) if found else ()), frozenset()
        number = self.members.class_of(frame, name)
        pending = self.objects.class_written(frame, number, None)
        assert pending is not None, name
        found = self.awaited.enter_by_value(stack, pending, value) is not None
        return (), frozenset((number,) if found else ())

    def _candidates_of_plain(
        self, frame: ObjectFrame, plain: Plain
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """``candidates`` of a plain object: all names whose value can fit; nothing is searched.

        In the order of the schema no name after the first that is owed may come before it, and
        names that the schema does not spell out come after all that it does.
        """
        possible = self._possible_names(plain.members, frame.order)
        owed = None if self.objects.any_order else self.objects.owed(frame, plain)
        ahead: Iterable[int] = self.objects.ahead(frame)
        if owed is not None:
            ahead = range(frame.written + 1, owed + 1)
        names = tuple(name for place in ahead if (name := possible[place]) is not None)
        return names, self._classes_of_plain(frame, plain) if owed is None else frozenset()

    def _classes_of_plain(self, frame: ObjectFrame, plain: Plain) -> frozenset[int]:
        """Return the classes of other names that may come next.

        Results are kept by ``plain`` alone: there is one of these for each goal, and the goal of a
        plain object stays the same with every member, and so do the classes. Which names are taken
        changes, and is checked each time.
        """
        found = self._classes.get(plain)
        if found is None:
            found = frozenset()
            if self._names_are_free(plain):
                space = self.members.space(frame.goals)
                found = frozenset(
                    number
                    for number, named in enumerate(space.classes)
                    # None also if the search gave up: such a class is left out, and counted.
                    if self.values.text(self.members.of_all(plain.members, named)) is not None
                )
            self._classes[plain] = found
        return frozenset(n for n in found if self.objects.has_fresh_name(frame, n))

    def _possible_names(self, members: tuple[Leaf, ...], order: int) -> _PossibleNames:
        found = self._named.get((members, order))
        if found is None:
            found = self._named[members, order] = _PossibleNames(self.objects, members, order)
        return found

    def _spellable_ahead(self, frame: ObjectFrame) -> Iterator[str]:
        """Yield the names that may still stand, judged by each alone.

        ``missing`` are the bytes that no token spells: names with one of them cannot be written.
        """
        names = self.objects.orders[frame.order].names
        missing = self.scalars.missing
        for place in self.objects.ahead(frame):
            if not missing or missing.isdisjoint(json_key(names[place])):
                yield names[place]

    def _names_are_free(self, plain: Plain) -> bool:
        """Return whether names may be written that the schema does not spell out.

        Decided without classes: most closed objects need none.
        """
        return all(
            leaf.assertion.rest is not FALSE or leaf.assertion.patterns
            for leaf in plain.members
            if isinstance(leaf.assertion, Members)
        )

    def _object(self, stack: int) -> ObjectFrame:
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return frame


class _PossibleNames(dict[int, str | None]):
    """The names of an order by their place; ``None`` for those without a value or a spelling."""

    def __init__(self, objects: ObjectRules, members: tuple[Leaf, ...], order: int) -> None:
        self.objects = objects
        self.members = members
        self.names = objects.orders[order].names

    def __missing__(self, place: int) -> str | None:
        """Return the name at a place if it can be spelled and some value fits; else ``None``.

        It depends only on the members' formulas and the order, so it is kept for all objects with
        these.
        """
        objects, name = self.objects, self.names[place]
        is_possible = (
            objects.scalars.missing.isdisjoint(json_key(name))
            and objects.values.text(objects.members.of_all(self.members, name)) is not None
        )
        found = self[place] = name if is_possible else None
        return found
