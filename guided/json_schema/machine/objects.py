"""Objects, evaluated member by member: what is left to fit, and what may follow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from guided.json_schema.formulas.assertions import (
    Has,
    JsonType,
    Matches,
    MemberCount,
    Members,
    Names,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Leaf,
    Not,
    conjuncts,
    evaluate,
    leaves_of,
    truth_vector,
)
from guided.json_schema.machine.containers import Asked, asked_of
from guided.json_schema.machine.names import NameClass, NameSpace
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Literals
from guided.json_schema.machine.stacks import (
    NO_KEYS,
    ROOT,
    UNKNOWN_KEYS,
    ObjectFrame,
    Pending,
    Stacks,
)
from guided.json_schema.machine.values import Values
from guided.regular.dfa import Dfa
from guided.regular.expression import Regular
from guided.runtime.fuel import spend
from guided.spec import KeyOrder

__all__ = ["Objects", "Plain"]

MAX_FAILURES: Final = 300
"""Ways tried at most to make assertions fail that have to."""
MAX_OWED_MEMBERS: Final = 1_000
"""Names made up for one object at most."""


class Plain:
    """What an object has to fit, where that is simple: all of these, and nothing else."""

    __slots__ = ("members", "needed")

    def __init__(self, members: tuple[Leaf, ...], needed: frozenset[str]) -> None:
        self.members: Final = members
        self.needed: Final = needed
        """Names of members that it has to have; those written already are not taken out."""


@dataclass(frozen=True, slots=True)
class Order:
    """The names that the schema spells out for an object, in its order."""

    names: tuple[str, ...]
    index: dict[str, int]
    spelled: frozenset[bytes]
    """The names as they stand between quotes."""


class Objects:
    """The rules of objects."""

    def __init__(
        self, restriction: Restriction, scalars: Scalars, values: Values, stacks: Stacks
    ) -> None:
        self.formulas = scalars.formulas
        self.restriction = restriction
        self.sharing = restriction.sharing
        self.scalars = scalars
        self.values = values
        self.stacks = stacks
        self.any_order = scalars.options.key_order is KeyOrder.ANY
        self.orders: list[Order] = []
        self._order_numbers: dict[tuple[str, ...], int] = {}
        self._opened: dict[tuple[tuple[Formula, ...], bool], ObjectFrame] = {}
        self._plain: dict[Formula, Plain | None] = {}
        self._needed_places: dict[tuple[Plain, int], tuple[int, ...]] = {}
        self._spaces: dict[object, NameSpace] = {}
        self._goal_spaces: dict[tuple[Formula, ...], NameSpace] = {}
        self._awaited: dict[tuple[ObjectFrame, str], Pending | None] = {}
        self._pattern_leaves: dict[int, Leaf] = {}
        self._named: dict[Leaf, dict[str, Formula]] = {}
        self._of_name: dict[tuple[Leaf, str], Formula] = {}
        self._of_class: dict[tuple[Leaf, NameClass], Formula] = {}
        self._joined: dict[tuple[tuple[Leaf, ...], str | NameClass], Formula] = {}

    # --- evaluation -----------------------------------------------------------------------

    def open(self, asks: tuple[Formula, ...], *, must: bool) -> ObjectFrame:
        """An object of which these formulas are asked, before its first member."""
        key = (asks, must)
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = self._open(asks, must=must)
        return found

    def _open(self, asks: tuple[Formula, ...], *, must: bool) -> ObjectFrame:
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
        return ObjectFrame(goals, must, number, 0 if self.any_order else -1)

    def ahead(self, frame: ObjectFrame) -> Iterator[int]:
        """The places in its order of the names that the object may still be given."""
        count = len(self.orders[frame.order].names)
        if self.any_order:
            for place in range(count):
                if not frame.written >> place & 1:
                    yield place
        else:
            yield from range(frame.written + 1, count)

    def name_written(self, frame: ObjectFrame, name: str) -> Pending | None:
        """The value of a spelled-out name is awaited; ``None`` where it must not stand here."""
        key = (frame, name)
        if key not in self._awaited:
            self._awaited[key] = self._name_written(frame, name)
        return self._awaited[key]

    def _name_written(self, frame: ObjectFrame, name: str) -> Pending | None:
        place = self.orders[frame.order].index[name]
        if self.is_behind(frame, place):
            return None
        written = frame.written | 1 << place if self.any_order else place
        return self._await(frame, name, written, frame.keys)

    def has_fresh_name(self, frame: ObjectFrame, number: int) -> bool:
        """Whether a name of a class is left that the object does not have yet."""
        space = self.space(frame.goals)
        if space.is_endless(number):
            return True
        taken = {*self.stacks.keys(frame.keys), *self.orders[frame.order].spelled}
        found = next(space.fresh(number, taken), None) is not None
        if not found and space.gave_up(number):
            self.values.fuel.incomplete += 1
        return found

    def class_written(self, frame: ObjectFrame, number: int, key: bytes | None) -> Pending | None:
        """The value of another name, of this class, is awaited; ``None`` for the text of the name
        where it is not known.
        """
        found = self.space(frame.goals).classes[number]
        keys = UNKNOWN_KEYS if key is None else self.stacks.with_key(frame.keys, key)
        count = len(self.orders[frame.order].names)
        written = frame.written if self.any_order else count
        return self._await(frame, found, written, keys)

    def value_done(self, pending: Pending, verdict: int) -> ObjectFrame | None:
        """The object behind a value with this verdict; ``None`` where it had to fit better."""
        frame = pending.frame
        assert isinstance(frame, ObjectFrame)
        if pending.must and not verdict & 1:
            return None
        failed = {leaf for leaf, ask in pending.links if not verdict >> ask & 1}
        if not failed:
            return frame
        goals = self._replaced(frame.goals, dict.fromkeys(failed, FALSE))
        return ObjectFrame(goals, frame.must, frame.order, frame.written, frame.keys, begun=True)

    def verdict(self, frame: ObjectFrame) -> int:
        """Which formulas the object fits if it closes here, one bit each."""
        plain = self.plain(frame)
        if plain is not None:
            return int(self.owed(frame, plain) is None)
        holds = self.at_the_end(frame)
        return truth_vector(evaluate(goal, holds) for goal in frame.goals)

    def at_the_end(self, frame: ObjectFrame) -> Callable[[Leaf], bool]:
        """Which assertions hold of an object that closes."""

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
        goals, plain = frame.goals, self.plain(frame)
        if plain is not None:
            owed = self.owed(frame, plain)
            if owed is not None and not self.any_order and owed < written:
                return None
            ask = self.of_all(plain.members, name)
            if ask is FALSE:
                return None
            asked = Asked((ask,), must=True, links=())
        else:
            goals = self._replaced(goals, self._decided(frame, name, written))
            asked, failed = asked_of(
                goals,
                [(leaf, self._child(leaf, name)) for leaf in _members(goals)],
                [],
                self.formulas,
                must=frame.must,
            )
            goals = self._replaced(goals, dict.fromkeys(failed, FALSE))
            if frame.must and (goals[0] is FALSE or asked.asks[0] is FALSE):
                return None
        inner = ObjectFrame(goals, frame.must, frame.order, written, keys, begun=True)
        return Pending(inner, asked.asks, asked.must, asked.links, sure=plain is not None)

    def _decided(
        self, frame: ObjectFrame, name: str | NameClass, written: int
    ) -> dict[Leaf, Formula]:
        """The assertions that a name alone decides, or brings nearer to their decision."""
        decided: dict[Leaf, Formula] = {}
        index = self.orders[frame.order].index
        for leaf in leaves_of(frame.goals):
            about = leaf.assertion
            if isinstance(about, Has):
                if about.name == name:
                    decided[leaf] = TRUE
                elif not self.any_order and index[about.name] < written:
                    decided[leaf] = FALSE
            elif isinstance(about, MemberCount):
                decided[leaf] = self._counted(about)
            elif isinstance(about, Names) and not self._name_fits(about, name):
                decided[leaf] = FALSE
        return decided

    def _counted(self, about: MemberCount) -> Formula:
        high = None if about.high is None else about.high - 1
        low = max(about.low - 1, 0)
        if high is not None and high < 0:
            return FALSE
        return TRUE if low == 0 and high is None else self.formulas.leaf(MemberCount(low, high))

    def _replaced(self, goals: tuple[Formula, ...], by: dict[Leaf, Formula]) -> tuple[Formula, ...]:
        if not by:
            return goals
        spend(len(goals) + len(by))
        return tuple(
            self.formulas.replace(goal, lambda leaf: by.get(leaf, leaf))  # type: ignore[arg-type]
            for goal in goals
        )

    # --- what is said about a name --------------------------------------------------------

    def plain(self, frame: ObjectFrame) -> Plain | None:
        """The simple form of what an object has to fit, where it has one."""
        if not frame.must:
            return None
        goal = frame.goals[0]
        if goal not in self._plain:
            self._plain[goal] = _plain(goal)
        return self._plain[goal]

    def is_behind(self, frame: ObjectFrame, place: int) -> bool:
        """Whether the name at a place of the order was written, or passed over."""
        return bool(frame.written >> place & 1) if self.any_order else place <= frame.written

    def has(self, frame: ObjectFrame, name: str) -> bool:
        """Whether an object has a member that is still asked for; none of these is passed over."""
        return self.is_behind(frame, self.orders[frame.order].index[name])

    def owed(self, frame: ObjectFrame, plain: Plain) -> int | None:
        """The place of the first name that an object needs and does not have."""
        key = (plain, frame.order)
        places = self._needed_places.get(key)
        if places is None:
            index = self.orders[frame.order].index
            places = self._needed_places[key] = tuple(sorted(index[n] for n in plain.needed))
        if self.any_order:
            return next((place for place in places if not self.is_behind(frame, place)), None)
        number = bisect_right(places, frame.written)
        return places[number] if number < len(places) else None

    def of_all(self, members: tuple[Leaf, ...], name: str | NameClass) -> Formula:
        """What all of several assertions say about the value of a name."""
        if len(members) == 1:
            return self._child(members[0], name)
        key = (members, name)
        if key not in self._joined:
            parts = [self._child(leaf, name) for leaf in members]
            self._joined[key] = self.formulas.all_of(parts)
        return self._joined[key]

    def _child(self, leaf: Leaf, name: str | NameClass) -> Formula:
        if isinstance(name, NameClass):
            if (leaf, name) not in self._of_class:
                self._of_class[leaf, name] = self._child_of_class(leaf, name)
            return self._of_class[leaf, name]
        if (leaf, name) not in self._of_name:
            parts = self._said_by(leaf, name)
            self._of_name[leaf, name] = self.formulas.all_of(map(self.sharing.of, parts))
        return self._of_name[leaf, name]

    def _said_by(self, leaf: Leaf, name: str) -> list[Formula]:
        about = leaf.assertion
        assert isinstance(about, Members), leaf
        by_name = self._named.get(leaf)
        if by_name is None:
            by_name = self._named[leaf] = dict(about.named)
        named = by_name.get(name)
        parts = [] if named is None else [named]
        if about.patterns:
            parts += [f for p, f in about.patterns if self._dfa_of(p).accepts(name)]
        return parts or [about.rest]

    def _dfa_of(self, pattern: Regular) -> Dfa:
        # By identity: the grammar keeps its patterns, and hashing a large one takes long.
        leaf = self._pattern_leaves.get(id(pattern))
        if leaf is None:
            leaf = self._pattern_leaves[id(pattern)] = self.formulas.leaf(Matches(pattern))
        return self.scalars.strings.leaf_dfa(leaf)

    def _child_of_class(self, leaf: Leaf, found: NameClass) -> Formula:
        about = leaf.assertion
        assert isinstance(about, Members), leaf
        parts = [formula for pattern, formula in about.patterns if pattern in found.patterns]
        return self.formulas.all_of(map(self.sharing.of, parts or [about.rest]))

    def _name_fits(self, about: Names, name: str | NameClass) -> bool:
        as_string = self.restriction.to(JsonType.STRING, about.name)
        if isinstance(name, NameClass):
            return as_string is TRUE or as_string in name.fits
        return self.scalars.strings.fits(as_string, name)

    def space(self, goals: tuple[Formula, ...]) -> NameSpace:
        """The classes of names that the schema does not spell out."""
        found = self._goal_spaces.get(goals)
        if found is None:
            patterns: dict[Regular, None] = {}
            formulas: dict[Formula, None] = {}
            for leaf in leaves_of(goals):
                if isinstance(leaf.assertion, Members):
                    patterns.update(dict.fromkeys(p for p, _ in leaf.assertion.patterns))
                elif isinstance(leaf.assertion, Names):
                    as_string = self.restriction.to(JsonType.STRING, leaf.assertion.name)
                    if as_string is not TRUE:
                        formulas[as_string] = None
            key = (tuple(patterns), tuple(formulas))
            if key not in self._spaces:
                self._spaces[key] = NameSpace(
                    *key, self._dfa_of, self.scalars.strings.formula_dfa, self.scalars.missing
                )
            found = self._goal_spaces[goals] = self._spaces[key]
        return found

    def class_of(self, frame: ObjectFrame, name: str) -> int:
        """The class of a name that the schema does not spell out."""
        space = self.space(frame.goals)
        found = NameClass(
            frozenset(p for p in space.patterns if self._dfa_of(p).accepts(name)),
            frozenset(f for f in space.formulas if self.scalars.strings.fits(f, name)),
        )
        return space.classes.index(found)

    # --- ways out -------------------------------------------------------------------------

    def end(self, frame: ObjectFrame, literals: Literals) -> bytes | None:
        """What completes the object so that these assertions hold, closing brace included."""
        return _Completion(self, frame, literals).text()


_NO_OTHER: Final = object()


class _Completion:
    """Members that make a choice of assertions come true."""

    def __init__(self, objects: Objects, frame: ObjectFrame, literals: Literals) -> None:
        self.objects = objects
        self.formulas = objects.formulas
        self.frame = frame
        self.order = objects.orders[frame.order]
        self.literals = literals
        self.holding = tuple(
            leaf for leaf, kept in literals.items() if kept and isinstance(leaf.assertion, Members)
        )
        self.tries = MAX_FAILURES
        self.named: dict[str, Formula] = {}
        self.free: dict[bytes, tuple[Formula, NameClass]] = {}

    def text(self) -> bytes | None:
        """The members that are owed, then those that make an assertion fail, then further ones."""
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
        """The text with all these assertions made to fail, each by some member."""
        if not failing:
            return self._filled()
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
                self.objects.values.fuel.missed += 1
                return None
            self.tries -= 1

    def _filled(self) -> bytes | None:
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
        parts: list[bytes] = []
        spend(len(self.named) + len(self.free))
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
        """Give the object a member of this name, if it may have one."""
        if name not in self.named and not self._may_have(name):
            return False
        formula = self.named.get(name)
        if formula is None:
            formula = self.objects.of_all(self.holding, name) if self.holding else TRUE
        formula = self.formulas.all_of([formula, also])
        if self.objects.values.text(formula) is None:
            return False
        self.named[name] = formula
        return True

    def _may_have(self, name: str) -> bool:
        return (
            not self.objects.is_behind(self.frame, self.order.index[name])
            and name not in self.banned
            and self.objects.scalars.missing.isdisjoint(json_key(name))
            and all(self.objects._name_fits(about, name) for about in self.names)
        )

    def _add_free(self, most: int) -> bool:
        """Give the object members of names of their own that are alike, up to ``most``."""
        for number, found, formula in self._usable_classes():
            keys = list(islice(self._fresh_names(number), most))
            for key in keys:
                self.free[key] = formula, found
            if keys:
                return True
        return False

    def _adding_free(self, also: Leaf | None, misnamed: Names | None) -> Iterator[None]:
        """Add a member of a name of its own that makes an assertion fail: of each class in turn."""
        for number, found, formula in self._usable_classes():
            if also is not None:
                opposite = self.formulas.negate(self.objects._child(also, found))
                formula = self.formulas.all_of([formula, opposite])
            if misnamed is not None and self.objects._name_fits(misnamed, found):
                continue
            if formula is FALSE or self.objects.values.text(formula) is None:
                continue
            key = next(self._fresh_names(number), None)
            if key is not None:
                self.free[key] = formula, found
                yield
                del self.free[key]

    def _usable_classes(self) -> Iterator[tuple[int, NameClass, Formula]]:
        """The classes that names of further members may be of, and what their values fit."""
        space = self.objects.space(self.frame.goals)
        for number, found in sorted(enumerate(space.classes), key=self._unhelpful):
            if all(self.objects._name_fits(about, found) for about in self.names):
                formula = self.objects.of_all(self.holding, found) if self.holding else TRUE
                if formula is not FALSE and self.objects.values.text(formula) is not None:
                    yield number, found, formula

    def _fresh_names(self, number: int) -> Iterator[bytes]:
        """Names of a class that the object does not have."""
        keys = self.objects.stacks.keys(self.frame.keys)
        taken = {*keys, *self.order.spelled, *self.free}
        space = self.objects.space(self.frame.goals)
        yield from space.fresh(number, taken)
        self.objects.values.fuel.missed += space.gave_up(number)

    def _unhelpful(self, numbered: tuple[int, NameClass]) -> int:
        """How many of the names that must not fit a class would leave to others."""
        return sum(self.objects._name_fits(about, numbered[1]) for about in self.misnames)

    def _failures(self, leaf: Leaf) -> Iterator[None]:
        """Make an assertion fail in one way after another, each undone before the next."""
        about = leaf.assertion
        if isinstance(about, Names):
            return self._misnamings(about)
        return self._violations(leaf)

    def _violations(self, leaf: Leaf) -> Iterator[None]:
        """Members that do not fit what is said about their names."""
        for name in [*self.named, *self._unused()]:
            opposite = self.formulas.negate(self.objects._child(leaf, name))
            before = self.named.get(name)
            if opposite is not FALSE and self._add_named(name, opposite):
                yield
                self._restore(name, before)
        for key, (formula, found) in list(self.free.items()):
            opposite = self.formulas.negate(self.objects._child(leaf, found))
            more = self.formulas.all_of([formula, opposite])
            if self.objects.values.text(more) is not None:
                self.free[key] = more, found
                yield
                self.free[key] = formula, found
        yield from self._adding_free(leaf, None)

    def _misnamings(self, about: Names) -> Iterator[None]:
        """Members whose names do not fit."""
        fits = self.objects._name_fits
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
        if formula is None:
            del self.named[name]
        else:
            self.named[name] = formula

    def _fill(self, low: int) -> bool:
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
        names = self.order.names
        for place in self.objects.ahead(self.frame):
            if names[place] not in self.named:
                yield names[place]


def _plain(goal: Formula) -> Plain | None:
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


assert ROOT == NO_KEYS == 0 and Not is not None
