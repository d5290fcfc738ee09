"""Objects, evaluated member by member: what is left to fit, and what is asked of the next value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import HasMember, JsonType, MemberCount, Members, Names
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Leaf,
    conjuncts,
    evaluate,
    leaves_of,
    pack_truth_vector,
)
from guided.json_schema.machine.containers import (
    ValueFormulas,
    decrement_count,
    derive_value_formulas,
    replace_leaves,
)
from guided.json_schema.machine.members import MemberRules
from guided.json_schema.machine.name_classes import NameClass
from guided.json_schema.machine.name_order import NameOrder
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import UNKNOWN_NAMES, AwaitedValue, ObjectFrame, Stacks
from guided.spec import KeyOrder

__all__ = ["ObjectRules", "PlainGoal"]


class PlainGoal:
    """The goal of most objects: ``Members`` assertions and required names, all of which must hold.

    A member changes nothing but which names are still owed.
    """

    __slots__ = ("members", "required_names")

    def __init__(self, members: tuple[Leaf, ...], required_names: frozenset[str]) -> None:
        self.members: Final = members
        self.required_names: Final = required_names
        """All names that the object has to have, also those already written."""


class ObjectRules:
    """The rules of objects: how they open, what their members decide, and how they close.

    Nothing here depends on what surrounds an object. Frames are immutable: methods return new ones.
    Caches live as long as the machine.
    """

    def __init__(
        self, restriction: Restriction, scalars: Scalars, values: ShortestValues, stacks: Stacks
    ) -> None:
        self.formulas = scalars.formulas
        self.restriction = restriction
        self.scalars = scalars
        self.values = values
        self.stacks = stacks
        self.members = MemberRules(restriction, scalars)
        self.any_order = scalars.options.key_order is KeyOrder.ANY
        self.orders: list[NameOrder] = []
        """``ObjectFrame.order`` is an index into it, and into ``Stacks.order_sizes``."""
        self._order_by_names: dict[tuple[str, ...], int] = {}
        """The index of an order in ``orders``, by its names."""
        self._frame_by_formulas: dict[tuple[tuple[Formula, ...], bool], ObjectFrame] = {}
        """The results of ``open`` by its arguments."""
        self._plain_goals: dict[Formula, PlainGoal | None] = {}
        """By goal: one object for each goal, which other caches use as their key."""
        self._required_indices: dict[tuple[PlainGoal, int], tuple[int, ...]] = {}
        """The indices of the required names in the order, ascending, by plain goal and order."""
        self._awaited_values: dict[tuple[ObjectFrame, str], AwaitedValue | None] = {}
        """The results of ``expect_named_value`` by its arguments."""

    # --- evaluation -----------------------------------------------------------------------

    def open(self, formulas: tuple[Formula, ...], *, required: bool) -> ObjectFrame:
        """Return the frame of an object before its first member, which is to fit these formulas."""
        key = (formulas, required)
        found = self._frame_by_formulas.get(key)
        if found is None:
            found = self._frame_by_formulas[key] = self._open(formulas, required=required)
        return found

    def _open(self, formulas: tuple[Formula, ...], *, required: bool) -> ObjectFrame:
        """Compute ``open``.

        The order has first the names in ``Members`` assertions, then those that are required or
        that a list of names allows. A new order is added to ``orders`` and ``Stacks.order_sizes``.
        """
        goals = tuple(self.restriction.to_type(JsonType.OBJECT, formula) for formula in formulas)
        names: dict[str, None] = {}
        for leaf in leaves_of(goals):
            if isinstance(leaf.assertion, Members):
                names.update(dict.fromkeys(name for name, _ in leaf.assertion.named))
        for leaf in leaves_of(goals):
            if isinstance(leaf.assertion, HasMember):
                names[leaf.assertion.name] = None
            elif isinstance(leaf.assertion, Names):
                as_string = self.restriction.to_type(JsonType.STRING, leaf.assertion.name)
                names.update(dict.fromkeys(self.scalars.strings.list_strings(as_string) or ()))
        key = tuple(names)
        order = self._order_by_names.setdefault(key, len(self.orders))
        if order == len(self.orders):
            spelled = frozenset(json_literal(name)[1:-1] for name in key)
            self.stacks.order_sizes.append(len(key))
            index = {name: i for i, name in enumerate(key)}
            self.orders.append(NameOrder(key, index, spelled, self.any_order))
        return ObjectFrame(goals, required, order, self.orders[order].none_passed)

    def expect_named_value(self, frame: ObjectFrame, name: str) -> AwaitedValue | None:
        """Return the frame that awaits the value of a name in the order of the object.

        ``None`` if the name must not stand here.
        """
        key = (frame, name)
        if key not in self._awaited_values:
            self._awaited_values[key] = self._expect_named_value(frame, name)
        return self._awaited_values[key]

    def _expect_named_value(self, frame: ObjectFrame, name: str) -> AwaitedValue | None:
        """Compute ``expect_named_value``."""
        order, passed = self.orders[frame.order], frame.names_passed
        index = order.index[name]
        if order.is_passed(passed, index):
            return None
        passed = order.pass_name(passed, index)
        return self._expect_value(frame, name, passed, frame.additional_set)

    def has_unused_additional_name(self, frame: ObjectFrame, class_id: int) -> bool:
        """Return whether a class of additional names has one that the object does not have yet.

        Names that are no longer known (UNKNOWN_NAMES) count as not written: walks leave such keys
        uncertain. ``False`` also if the search for a name gave up; such members are then left out
        of the language, which ``num_incomplete`` counts.
        """
        space = self.members.name_space(frame.goals)
        if space.is_infinite(class_id):
            return True  # a name is left in any case, and a search is bounded
        # A name that the schema spells out is never additional, written or not.
        taken = {
            *self.stacks.iterate_names(frame.additional_set),
            *self.orders[frame.order].encoded,
        }
        found = next(space.unused_names(class_id, taken), None) is not None
        if not found and space.gave_up(class_id):
            self.values.searches.num_incomplete += 1
        return found

    def expect_class_value(
        self, frame: ObjectFrame, class_id: int, key: bytes | None
    ) -> AwaitedValue | None:
        """Return the frame that awaits an additional name's value; ``None`` if it is refused.

        ``class_id`` is the class of the name and ``key`` the name, ``None`` if it is not known:
        then the additional names of the object are unknown from then on. The caller ensures that
        the object does not have the name, and that its names are known if ``key`` is.
        """
        name_class = self.members.name_space(frame.goals).classes[class_id]
        additional_set = (
            UNKNOWN_NAMES if key is None else self.stacks.add_name(frame.additional_set, key)
        )
        passed = self.orders[frame.order].pass_all(frame.names_passed)
        awaited = self._expect_value(frame, name_class, passed, additional_set)
        most = self.scalars.options.max_additional_members
        if awaited is None or most is None:
            return awaited
        inner = awaited.frame
        assert isinstance(inner, ObjectFrame), inner
        counted = inner._replace(num_additional=min(frame.num_additional + 1, most))
        return awaited._replace(frame=counted)

    def finish_value(self, awaited: AwaitedValue, truth_vector: int) -> ObjectFrame | None:
        """Return the object after a value with this truth vector; ``None`` if it does not fit.

        The frame of ``awaited`` already has the name in it; the value only decides
        ``dependent_assertions``. As in ``ArrayRules.finish_item``, the required goal of the result
        may be FALSE.
        """
        frame = awaited.frame
        assert isinstance(frame, ObjectFrame)
        if awaited.required and not truth_vector & 1:
            return None
        failed = {leaf for leaf, i in awaited.dependent_assertions if not truth_vector >> i & 1}
        if not failed:
            return frame
        goals = replace_leaves(self.formulas, frame.goals, dict.fromkeys(failed, FALSE))
        return ObjectFrame(
            goals,
            frame.required,
            frame.order,
            frame.names_passed,
            frame.additional_set,
            has_members=True,
            num_additional=frame.num_additional,
        )

    def is_full(self, frame: ObjectFrame) -> bool:
        """Return whether an object has as many additional members as the options allow.

        Never where the schema bounds their number.
        """
        most = self.scalars.options.max_additional_members
        if most is None or frame.num_additional < most:
            return False
        counts = [leaf.assertion for leaf in leaves_of(frame.goals)]
        return not any(isinstance(each, MemberCount) and each.high is not None for each in counts)

    def closing_vector(self, frame: ObjectFrame) -> int:
        """Return the truth vector of the object if it closes here."""
        # A plain goal is the only one, and all members so far fit it.
        plain = self.plain_goal(frame)
        if plain is not None:
            return int(self.first_owed_index(frame, plain) is None)
        holds = self.holds_at_close(frame)
        return pack_truth_vector(evaluate(goal, holds) for goal in frame.goals)

    def holds_at_close(self, frame: ObjectFrame) -> Callable[[Leaf], bool]:
        """Return a function: whether an assertion that is still open holds if the object closes.

        Each member lowered the counts (``decrement_count``). A ``Members`` or ``Names`` that a
        member did not fit is FALSE by now, so one that is still open holds.
        """

        def holds(leaf: Leaf) -> bool:
            assertion = leaf.assertion
            if isinstance(assertion, HasMember):
                return self.has(frame, assertion.name)
            return assertion.low == 0 if isinstance(assertion, MemberCount) else True

        return holds

    def _expect_value(
        self,
        frame: ObjectFrame,
        name: str | NameClass,
        names_passed: int,
        additional_set: int,
    ) -> AwaitedValue | None:
        """Return the frame that awaits the value of a name; ``None`` if it must not stand here.

        ``names_passed`` and ``additional_set`` are those of the object with the name in it.
        """
        goals, plain = frame.goals, self.plain_goal(frame)
        if plain is not None:
            owed = self.first_owed_index(frame, plain)
            order = self.orders[frame.order]
            if owed is not None and order.is_before_last(names_passed, owed):
                return None  # this required name would be skipped
            formula = self.members.value_formula(plain.members, name)
            if formula is FALSE:
                return None
            value = ValueFormulas((formula,), required=True, dependent_assertions=())
        else:
            # First what the name decides, then what the rest asks of its value.
            goals = replace_leaves(
                self.formulas, goals, self._decide_by_name(frame, name, names_passed)
            )
            # ``failed`` are the ``Members`` that no value of this name can satisfy.
            value, failed = derive_value_formulas(
                goals,
                [(leaf, self.members.leaf_formula(leaf, name)) for leaf in _member_leaves(goals)],
                (),  # no assertion counts the members whose values fit
                self.formulas,
                required=frame.required,
            )
            goals = replace_leaves(self.formulas, goals, dict.fromkeys(failed, FALSE))
            if frame.required and (goals[0] is FALSE or value.formulas[0] is FALSE):
                return None
        inner = ObjectFrame(
            goals,
            frame.required,
            frame.order,
            names_passed,
            additional_set,
            has_members=True,
            num_additional=frame.num_additional,
        )
        return AwaitedValue(
            inner,
            value.formulas,
            value.required,
            value.dependent_assertions,
            always_completable=plain is not None,
        )

    def _decide_by_name(
        self, frame: ObjectFrame, name: str | NameClass, names_passed: int
    ) -> dict[Leaf, Formula]:
        """Return what is left of the assertions that a name alone decides or lowers, by assertion.

        ``names_passed`` is that of the object with the name in it. ``Members`` are left out: values
        decide them.
        """
        decided: dict[Leaf, Formula] = {}
        order = self.orders[frame.order]
        for leaf in leaves_of(frame.goals):
            assertion = leaf.assertion
            if isinstance(assertion, HasMember):
                if assertion.name == name:
                    decided[leaf] = TRUE
                # Skipped, if it was not written (then it is TRUE by now): it cannot come any more.
                elif order.is_before_last(names_passed, order.index[assertion.name]):
                    decided[leaf] = FALSE
            elif isinstance(assertion, MemberCount):
                decided[leaf] = decrement_count(assertion, self.formulas)
            elif isinstance(assertion, Names) and not self.members.name_fits(assertion, name):
                decided[leaf] = FALSE
        return decided

    # --- names that are written, and owed --------------------------------------------------

    def plain_goal(self, frame: ObjectFrame) -> PlainGoal | None:
        """Return the goal of an object as a plain one; ``None`` if it is not plain.

        Equal goals return the same object, which other caches use as their key.
        """
        if not frame.required:
            return None
        goal = frame.goals[0]
        if goal not in self._plain_goals:
            self._plain_goals[goal] = _as_plain_goal(goal)
        return self._plain_goals[goal]

    def has(self, frame: ObjectFrame, name: str) -> bool:
        """Return whether an object has a member with this name, that of an open ``HasMember``."""
        order = self.orders[frame.order]
        return order.is_passed(frame.names_passed, order.index[name])

    def first_owed_index(self, frame: ObjectFrame, plain: PlainGoal) -> int | None:
        """Return the index of the first required name that an object does not have; else ``None``.

        ``plain`` is the goal of the frame.
        """
        key = (plain, frame.order)
        order = self.orders[frame.order]
        indices = self._required_indices.get(key)
        if indices is None:
            indices = self._required_indices[key] = tuple(
                sorted(order.index[n] for n in plain.required_names)
            )
        # Required names are never skipped, so those that are passed were written.
        return order.first_ahead(frame.names_passed, indices)


def _as_plain_goal(goal: Formula) -> PlainGoal | None:
    """Return a goal as a plain one; ``None`` if it is anything but a conjunction of these."""
    members: list[Leaf] = []
    required_names: set[str] = set()
    for part in conjuncts(goal):
        if part is TRUE:
            continue
        if not isinstance(part, Leaf):
            return None
        if isinstance(part.assertion, Members):
            members.append(part)
        elif isinstance(part.assertion, HasMember):
            required_names.add(part.assertion.name)
        else:
            return None
    return PlainGoal(tuple(members), frozenset(required_names))


def _member_leaves(goals: tuple[Formula, ...]) -> list[Leaf]:
    return [leaf for leaf in leaves_of(goals) if isinstance(leaf.assertion, Members)]
