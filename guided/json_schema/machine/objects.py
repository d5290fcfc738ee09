"""Objects, evaluated member by member: what is left to fit, and what may follow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from guided.json_schema.formulas.assertions import Has, JsonType, MemberCount, Members, Names
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Leaf,
    conjuncts,
    evaluate,
    leaves_of,
    truth_vector,
)
from guided.json_schema.machine.containers import Asked, asked_of, one_fewer, replaced
from guided.json_schema.machine.members import MemberRules
from guided.json_schema.machine.name_classes import NameClass
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.shortest_values import ShortestValues
from guided.json_schema.machine.stacks import UNKNOWN_KEYS, ObjectFrame, Pending, Stacks
from guided.spec import KeyOrder

__all__ = ["ObjectRules", "Plain"]


class Plain:
    """What most objects have to fit: assertions about members, and names that must be there.

    All must hold, so a member changes nothing but which names are still owed.
    """

    __slots__ = ("members", "needed")

    def __init__(self, members: tuple[Leaf, ...], needed: frozenset[str]) -> None:
        self.members: Final = members
        self.needed: Final = needed
        """Names of members that it has to have, including those already written."""


@dataclass(frozen=True, slots=True)
class Order:
    """The names that the schema spells out for an object, in its order.

    ``index`` has the place of each name; frames and bits of ``written`` count places.
    """

    names: tuple[str, ...]
    index: dict[str, int]
    spelled: frozenset[bytes]
    """The names as they stand between quotes."""


class ObjectRules:
    """The rules of objects: how they open, what their members decide, and how they close.

    Nothing here knows what surrounds an object. A frame is a value: methods never change one, they
    return another or the same. What is remembered by frames, goals and names depends only on these,
    and is kept as long as the machine.
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
        self.orders: list[Order] = []
        """By the number in ``ObjectFrame.order``; ``Stacks.order_sizes`` goes with it."""
        self._order_numbers: dict[tuple[str, ...], int] = {}
        """The number of an order by its names: the inverse of ``orders``."""
        self._opened: dict[tuple[tuple[Formula, ...], bool], ObjectFrame] = {}
        self._plain: dict[Formula, Plain | None] = {}
        """By goal, so that a ``Plain`` has one goal and may be the key of what the goal decides."""
        self._needed_places: dict[tuple[Plain, int], tuple[int, ...]] = {}
        """The places of the names that a plain object needs, sorted, by it and its order."""
        self._awaited: dict[tuple[ObjectFrame, str], Pending | None] = {}

    # --- evaluation -----------------------------------------------------------------------

    def open(self, asks: tuple[Formula, ...], *, must: bool) -> ObjectFrame:
        """Return an object that is asked these formulas, before its first member.

        Kept: equal arguments return the same frame, whatever surrounds the object.
        """
        key = (asks, must)
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = self._open(asks, must=must)
        return found

    def _open(self, asks: tuple[Formula, ...], *, must: bool) -> ObjectFrame:
        """Compute ``open`` for new formulas.

        Its order has first the names that assertions about members list, then those that must be
        there or that a list of names allows: members are written in this order. A new order gets
        its number here, in ``orders`` and ``Stacks.order_sizes`` together.
        """
        goals = tuple(self.restriction.to(JsonType.OBJECT, ask) for ask in asks)
        names: dict[str, None] = {}
        for leaf in leaves_of(goals):
            if isinstance(leaf.assertion, Members):
                names.update(dict.fromkeys(name for name, _ in leaf.assertion.named))
        for leaf in leaves_of(goals):
            if isinstance(leaf.assertion, Has):
                names[leaf.assertion.name] = None
            elif isinstance(leaf.assertion, Names):
                as_string = self.restriction.to(JsonType.STRING, leaf.assertion.name)
                names.update(dict.fromkeys(self.scalars.strings.listing(as_string) or ()))
        key = tuple(names)
        number = self._order_numbers.setdefault(key, len(self.orders))
        if number == len(self.orders):
            spelled = frozenset(json_key(name)[1:-1] for name in key)
            self.stacks.order_sizes.append(len(key))
            self.orders.append(Order(key, {name: i for i, name in enumerate(key)}, spelled))
        # Nothing written: no bit is set, and no place comes before the first.
        return ObjectFrame(goals, must, number, 0 if self.any_order else -1)

    def ahead(self, frame: ObjectFrame) -> Iterator[int]:
        """Yield the places in its order of the names that the object may still be given.

        Ascending. Only the order counts: whether a name is allowed and can be spelled is not
        checked.
        """
        count = len(self.orders[frame.order].names)
        if self.any_order:
            for place in range(count):
                if not frame.written >> place & 1:
                    yield place
        else:
            yield from range(frame.written + 1, count)

    def name_written(self, frame: ObjectFrame, name: str) -> Pending | None:
        """Await the value of a spelled-out name; ``None`` if it must not stand here.

        Results are kept by frame and name. The name has to be in the order of the object.
        """
        key = (frame, name)
        if key not in self._awaited:
            self._awaited[key] = self._name_written(frame, name)
        return self._awaited[key]

    def _name_written(self, frame: ObjectFrame, name: str) -> Pending | None:
        """Compute ``name_written``."""
        place = self.orders[frame.order].index[name]
        if self.is_passed(frame, place):
            return None
        # In the order of the schema one number suffices: names before it were passed over.
        written = frame.written | 1 << place if self.any_order else place
        return self._await(frame, name, written, frame.keys)

    def has_fresh_name(self, frame: ObjectFrame, number: int) -> bool:
        """Return whether a name of a class is left that the object does not have yet.

        ``False`` also if the search for one gave up, which is counted as incomplete. Not kept,
        as the names that are taken change with the object.
        """
        space = self.members.space(frame.goals)
        if space.is_endless(number):
            return True
        # A name that the schema spells out is never free, written or not.
        taken = {*self.stacks.keys(frame.keys), *self.orders[frame.order].spelled}
        found = next(space.fresh(number, taken), None) is not None
        if not found and space.gave_up(number):
            self.values.searches.incomplete += 1
        return found

    def class_written(self, frame: ObjectFrame, number: int, key: bytes | None) -> Pending | None:
        """Await the value of another name, of this class; ``None`` if none may stand here.

        ``key`` is the name as it is written. The caller ensures that the object does not have it
        yet and that its set of keys is known; this is not checked. ``key`` is ``None`` if it is
        not known, and the set of keys is unknown from then on.
        """
        found = self.members.space(frame.goals).classes[number]
        keys = UNKNOWN_KEYS if key is None else self.stacks.with_key(frame.keys, key)
        count = len(self.orders[frame.order].names)
        # In the order of the schema, free names come after all that are spelled out.
        written = frame.written if self.any_order else count
        return self._await(frame, found, written, keys)

    def value_done(self, pending: Pending, truth: int) -> ObjectFrame | None:
        """Return the object after a value with this truth vector; ``None`` if it had to fit better.

        The name was put into the frame when it was written (``_await``); the value only decides
        links, so where none fails it is the frame of ``pending`` itself.
        """
        frame = pending.frame
        assert isinstance(frame, ObjectFrame)
        if pending.must and not truth & 1:
            return None
        failed = {leaf for leaf, ask in pending.links if not truth >> ask & 1}
        if not failed:
            return frame
        goals = replaced(self.formulas, frame.goals, dict.fromkeys(failed, FALSE))
        return ObjectFrame(goals, frame.must, frame.order, frame.written, frame.keys, begun=True)

    def truth(self, frame: ObjectFrame) -> int:
        """Return which formulas the object fits if it closes here, one bit each.

        Bit ``i`` is for ``frame.goals[i]``; goals keep their places for this.
        """
        # A plain object has one goal, and all members so far fit it.
        plain = self.plain(frame)
        if plain is not None:
            return int(self.owed(frame, plain) is None)
        holds = self.at_the_end(frame)
        return truth_vector(evaluate(goal, holds) for goal in frame.goals)

    def at_the_end(self, frame: ObjectFrame) -> Callable[[Leaf], bool]:
        """Return which open assertions hold of an object that closes.

        Each member lowered the counts (``one_fewer``). A member that did not fit an assertion about
        members or names has made that FALSE, so one that is still open holds.
        """

        def holds(leaf: Leaf) -> bool:
            about = leaf.assertion
            if isinstance(about, Has):
                return self.has(frame, about.name)
            return about.low == 0 if isinstance(about, MemberCount) else True

        return holds

    def _await(
        self,
        frame: ObjectFrame,
        name: str | NameClass,
        written: int,
        keys: int,
    ) -> Pending | None:
        """Await the value of a name; ``None`` if that name must not stand here.

        ``written`` and ``keys`` are those of the object with the name in it.
        """
        goals, plain = frame.goals, self.plain(frame)
        if plain is not None:
            owed = self.owed(frame, plain)
            # A name that the object needs would be passed over for good.
            if owed is not None and not self.any_order and owed < written:
                return None
            ask = self.members.of_all(plain.members, name)
            if ask is FALSE:
                return None
            asked = Asked((ask,), must=True, links=())
        else:
            # First what the name decides, then what the rest asks of its value.
            goals = replaced(self.formulas, goals, self._decided(frame, name, written))
            asked, failed = asked_of(
                goals,
                [(leaf, self.members.of_one(leaf, name)) for leaf in _members(goals)],
                [],
                self.formulas,
                must=frame.must,
            )
            goals = replaced(self.formulas, goals, dict.fromkeys(failed, FALSE))
            if frame.must and (goals[0] is FALSE or asked.asks[0] is FALSE):
                return None
        inner = ObjectFrame(goals, frame.must, frame.order, written, keys, begun=True)
        return Pending(inner, asked.asks, asked.must, asked.links, sure=plain is not None)

    def _decided(
        self, frame: ObjectFrame, name: str | NameClass, written: int
    ) -> dict[Leaf, Formula]:
        """Return the assertions that a name alone decides, or brings nearer to their decision.

        ``written`` is that of the object with the name in it. Assertions about members are left
        out: their values decide them.
        """
        decided: dict[Leaf, Formula] = {}
        index = self.orders[frame.order].index
        for leaf in leaves_of(frame.goals):
            about = leaf.assertion
            if isinstance(about, Has):
                if about.name == name:
                    decided[leaf] = TRUE
                # Passed over: it cannot come any more.
                elif not self.any_order and index[about.name] < written:
                    decided[leaf] = FALSE
            elif isinstance(about, MemberCount):
                decided[leaf] = one_fewer(about, self.formulas)
            elif isinstance(about, Names) and not self.members.name_fits(about, name):
                decided[leaf] = FALSE
        return decided

    # --- names that are written, and owed --------------------------------------------------

    def plain(self, frame: ObjectFrame) -> Plain | None:
        """Return the simple form of what an object has to fit; ``None`` if it is not a plain one.

        Results are kept by goal: equal goals return the same object, which other caches use as
        their key.
        """
        if not frame.must:
            return None
        goal = frame.goals[0]
        if goal not in self._plain:
            self._plain[goal] = _plain(goal)
        return self._plain[goal]

    def is_passed(self, frame: ObjectFrame, place: int) -> bool:
        """Return whether the name at a place of the order was written, or passed over."""
        return bool(frame.written >> place & 1) if self.any_order else place <= frame.written

    def has(self, frame: ObjectFrame, name: str) -> bool:
        """Return whether an object has a member still owed; none of these is passed over."""
        return self.is_passed(frame, self.orders[frame.order].index[name])

    def owed(self, frame: ObjectFrame, plain: Plain) -> int | None:
        """Return the place of the first name that an object needs and does not have; else ``None``.

        ``plain`` is that of the frame.
        """
        key = (plain, frame.order)
        places = self._needed_places.get(key)
        if places is None:
            index = self.orders[frame.order].index
            places = self._needed_places[key] = tuple(sorted(index[n] for n in plain.needed))
        if self.any_order:
            return next((place for place in places if not self.is_passed(frame, place)), None)
        # Places are sorted, and all up to the one written last are settled.
        number = bisect_right(places, frame.written)
        return places[number] if number < len(places) else None


def _plain(goal: Formula) -> Plain | None:
    """Return what a goal asks if it is a plain one; ``None`` for any other.

    Negations and alternatives are never plain, nor are counts and assertions about names.
    """
    members: list[Leaf] = []
    needed: set[str] = set()
    for part in conjuncts(goal):
        if part is TRUE:
            continue
        if not isinstance(part, Leaf):
            return None
        if isinstance(part.assertion, Members):
            members.append(part)
        elif isinstance(part.assertion, Has):
            needed.add(part.assertion.name)
        else:
            return None
    return Plain(tuple(members), frozenset(needed))


def _members(goals: tuple[Formula, ...]) -> list[Leaf]:
    return [leaf for leaf in leaves_of(goals) if isinstance(leaf.assertion, Members)]
