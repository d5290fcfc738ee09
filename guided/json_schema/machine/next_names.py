"""Names that may come next in an object.

Additional names, which the schema does not spell out, are treated by class: names of one class
match the same patterns and fit the same formulas (``NameSpace``), so what holds for one holds for
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import Members
from guided.json_schema.formulas.formula import FALSE, Leaf
from guided.json_schema.formulas.values import read_value
from guided.json_schema.machine.objects import PlainGoal
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.json_schema.machine.stacks import ObjectFrame
from guided.json_schema.machine.value_stacks import ValueStacks
from guided.runtime.work_budget import with_pauses

__all__ = ["NextNames"]


class NextNames:
    """The names after which an object can be completed, and the stacks of their values.

    ``stack`` is always that of an object between two members, except for ``skip_spelled_names``,
    which takes any. ``None`` is for a name that must not be written, or without a known completion.
    """

    def __init__(self, value_stacks: ValueStacks) -> None:
        self.value_stacks: Final = value_stacks
        self.completions: Final = value_stacks.completions
        self.objects: Final = value_stacks.objects
        self.members: Final = value_stacks.objects.members
        self.values: Final = value_stacks.values
        self.scalars: Final = value_stacks.vectors.scalars
        self.stacks: Final = value_stacks.stacks
        self._skipped_stack: dict[int, int] = {}
        """The results of ``skip_spelled_names`` by stack."""
        self._possible: dict[tuple[Leaf, ...], dict[str, bool]] = {}
        """The results of ``_is_possible`` by its arguments."""
        self._classes_by_goal: dict[PlainGoal, frozenset[int]] = {}
        """The classes of names that a plain goal allows, also those whose names are all taken."""

    def enter_named_value(self, stack: int, name: str) -> int | None:
        """Return the stack of the value of a name that the schema spells out."""
        frame = self._object_frame(stack)
        return self.value_stacks.enter(stack, self.objects.expect_named_value(frame, name))

    def enter_class_value(self, stack: int, class_id: int, key: bytes | None) -> int | None:
        """Return the stack of the value of an additional name of a class.

        ``key`` is as for ``ObjectRules.expect_class_value``.
        """
        frame = self._object_frame(stack)
        return self.value_stacks.enter(stack, self.objects.expect_class_value(frame, class_id, key))

    def skip_spelled_names(self, stack: int) -> int:
        """Return the stack in which all spelled-out names count as passed.

        Additional names may follow there as in ``stack``. Stacks that differ only in which
        spelled-out names were written lead to the same one, and so share masks. It is ``stack``
        itself if names may come in any order, or if the goal is not plain or owes names.
        """
        found = self._skipped_stack.get(stack)
        if found is None:
            found = self._skipped_stack[stack] = self._skip_spelled_names(stack)
        return found

    def _skip_spelled_names(self, stack: int) -> int:
        """Compute ``skip_spelled_names``."""
        frame = self.stacks.frames[stack]
        if not isinstance(frame, ObjectFrame) or self.objects.any_order:
            return stack
        plain = self.objects.plain_goal(frame)
        if plain is None or self.objects.first_owed_index(frame, plain) is not None:
            return stack
        passed = self.objects.orders[frame.order].pass_all(frame.names_passed)
        after = frame._replace(names_passed=passed, has_members=True)
        return self.stacks.enter(after, self.stacks.parents[stack])

    def is_rare(self, stack: int, class_id: int) -> bool:
        """Return whether a class has only a limited number of names."""
        return not self.members.name_space(self._object_frame(stack).goals).is_infinite(class_id)

    def candidates(self, stack: int) -> tuple[tuple[str, ...], frozenset[int]]:
        """Return the spelled-out names that may come next, in order, and the classes that may."""
        frame = self._object_frame(stack)
        plain = self.objects.plain_goal(frame)
        if plain is None:
            names, classes = self._find_candidates(stack, frame)
        else:
            names, classes = self._candidates_of_plain(frame, plain)
        # As for items: what can be ended at once is ended.
        if classes and self.objects.is_full(frame) and self.completions.shortest(stack) == b"}":
            return names, frozenset()
        return names, classes

    def _find_candidates(
        self, stack: int, frame: ObjectFrame
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """Compute ``candidates`` of an object without a plain goal: each name and class is tried.

        If none is left and the object may not close, the known completion provides one.
        """
        names = tuple(
            name
            for name in self._spellable_names_ahead(frame)
            if self.enter_named_value(stack, name) is not None
        )
        classes = frozenset(
            class_id
            for class_id in range(len(self.members.name_space(frame.goals).classes))
            if self.objects.has_unused_additional_name(frame, class_id)
            and self.enter_class_value(stack, class_id, None) is not None
        )
        # The stack has a completion, or it would not have been entered: so there must be a name.
        if not names and not classes and not self.value_stacks.may_close(stack):
            return self._candidate_from_completion(stack, frame)
        return names, classes

    def _candidate_from_completion(
        self, stack: int, frame: ObjectFrame
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """Return the first name in the known completion, for ``candidates``.

        Only for a stack that has a completion and may not close, so that the completion begins with
        a member, whose name the object may have.
        """
        members = read_value(b"{" + self.completions.shortest(stack).lstrip(b","))
        name, value = next(iter(members.items()))
        if name in self.objects.orders[frame.order].index:
            awaited = self.objects.expect_named_value(frame, name)
            assert awaited is not None, name
            found = self.value_stacks.enter_by_value(stack, awaited, value) is not None
            return ((name,) if found else ()), frozenset()
        class_id = self.members.class_of(frame, name)
        awaited = self.objects.expect_class_value(frame, class_id, None)
        assert awaited is not None, name
        found = self.value_stacks.enter_by_value(stack, awaited, value) is not None
        return (), frozenset((class_id,) if found else ())

    def _candidates_of_plain(
        self, frame: ObjectFrame, plain: PlainGoal
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """Compute ``candidates`` of an object with a plain goal: all names whose value can fit.

        In the order of the schema no name after the first that is owed may come before it, and
        additional names come after all others.
        """
        order = self.objects.orders[frame.order]
        owed = None if self.objects.any_order else self.objects.first_owed_index(frame, plain)
        possible = self._possible.setdefault(plain.members, {})
        names: list[str] = []
        for index in with_pauses(order.indices_ahead(frame.names_passed, last=owed)):
            name = order.names[index]
            if name not in possible:
                possible[name] = self._is_possible(plain.members, name)
            if possible[name]:
                names.append(name)
        return tuple(names), self._classes_of_plain(frame, plain) if owed is None else frozenset()

    def _classes_of_plain(self, frame: ObjectFrame, plain: PlainGoal) -> frozenset[int]:
        """Return the classes of additional names that may come next.

        A plain goal stays the same with every member, so the classes that it allows are cached.
        Which names are taken changes, and is checked each time.
        """
        found = self._classes_by_goal.get(plain)
        if found is None:
            found = frozenset()
            if self._allows_additional_names(plain):
                space = self.members.name_space(frame.goals)
                found = frozenset(
                    class_id
                    for class_id, named in enumerate(space.classes)
                    # None also if the search gave up: such a class is left out, and counted.
                    if self.values.text(self.members.value_formula(plain.members, named))
                    is not None
                )
            self._classes_by_goal[plain] = found
        return frozenset(n for n in found if self.objects.has_unused_additional_name(frame, n))

    def _is_possible(self, members: tuple[Leaf, ...], name: str) -> bool:
        """Return whether a name can be spelled and a value fits these ``Members`` assertions."""
        return (
            self.scalars.unavailable_bytes.isdisjoint(json_literal(name))
            and self.values.text(self.members.value_formula(members, name)) is not None
        )

    def _spellable_names_ahead(self, frame: ObjectFrame) -> Iterator[str]:
        """Yield the names ahead that can be spelled without the ``unavailable_bytes``."""
        order = self.objects.orders[frame.order]
        unavailable = self.scalars.unavailable_bytes
        for index in order.indices_ahead(frame.names_passed):
            if not unavailable or unavailable.isdisjoint(json_literal(order.names[index])):
                yield order.names[index]

    def _allows_additional_names(self, plain: PlainGoal) -> bool:
        """Return whether a plain goal may allow additional names.

        Decided without classes, which need not be made for most objects where it is ``False``.
        """
        return all(
            leaf.assertion.rest is not FALSE or leaf.assertion.patterns
            for leaf in plain.members
            if isinstance(leaf.assertion, Members)
        )

    def _object_frame(self, stack: int) -> ObjectFrame:
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return frame
