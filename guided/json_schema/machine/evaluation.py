"""Documents, evaluated as they are written: which stacks can still be brought to a good end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from cachetools import LRUCache

from guided.json_schema.formulas.assertions import ItemCount, Items, JsonType, Members, Unique
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Leaf,
    Not,
    evaluate,
    leaves_of,
    parts_of,
    truth_vector,
)
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.formulas.values import Json, formula_of_value, read_value
from guided.json_schema.machine import arrays
from guided.json_schema.machine.array_endings import ArrayEnding
from guided.json_schema.machine.arrays import ArrayRules
from guided.json_schema.machine.object_endings import ObjectEnding
from guided.json_schema.machine.objects import ObjectRules, Plain
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Fuel, Literals, satisfy
from guided.json_schema.machine.stacks import ArrayFrame, Frame, ObjectFrame, Pending, Stacks
from guided.json_schema.machine.values import Values
from guided.spec import JsonOptions

__all__ = ["Evaluation"]

MAX_KEPT_BYTES: Final = 4 * 2**20
"""Of the texts that complete containers."""
_DECODER: Final = json.JSONDecoder()
_FITTING: Final = (1,)
_OPENED: Final = {ord("{"): JsonType.OBJECT, ord("["): JsonType.ARRAY}
MAX_TOLD_VERDICTS: Final = 64
"""Of more verdicts than these, any that a value has will do for a short one."""
MAX_ENUMERATED_ASKS: Final = 6
"""Of so many formulas asked of one value, every combination of verdicts is considered."""


class Evaluation:
    """The stacks of one grammar, and the moves between them that leave a way to the end."""

    def __init__(
        self,
        grammar: JsonGrammar,
        options: JsonOptions,
        missing: frozenset[int],
        max_stacks: int,
    ) -> None:
        self.formulas = grammar.formulas
        self.restriction = Restriction(grammar.formulas)
        self.scalars = Scalars(grammar.formulas, options, missing)
        self.fuel = Fuel()
        self.values = Values(self.restriction, self.scalars, self.fuel)
        self.stacks = Stacks(Pending(None, (grammar.root,), must=True), max_stacks)
        self.objects = ObjectRules(self.restriction, self.scalars, self.values, self.stacks)
        self.arrays = ArrayRules(grammar.formulas, self.restriction, self.values)
        self.values.object = self._shortest_object
        self.values.array = self._shortest_array
        self._can_end: dict[tuple[Frame, Formula], bool] = {}
        self._ends: LRUCache[tuple[Frame, Formula], bytes] = LRUCache(MAX_KEPT_BYTES, len)
        self._accepted: dict[int, tuple[int, ...]] = {}
        self._acceptable: dict[tuple[int, int], bool] = {}
        self._short_values: dict[int, bytes] = {}
        self._as_judged: dict[tuple[tuple[Formula, ...], tuple[int, ...]], Formula] = {}
        self._likely: dict[tuple[Formula, ...], list[int]] = {}
        self._ways: dict[int, bool] = {}
        self._hints: dict[int, int] = {}
        self._unlikely: set[int] = set()
        self._begun: dict[int, int | None] = {}
        self._closed: dict[int, int] = {}
        self._behind_names: dict[int, int] = {}
        self._next_items: LRUCache[ArrayFrame, tuple[bytes, bytes]] = LRUCache(
            MAX_KEPT_BYTES, lambda texts: sum(map(len, texts))
        )
        self._named: dict[tuple[tuple[Leaf, ...], int], _PossibleNames] = {}
        self._classes: dict[Plain, frozenset[int]] = {}

    # --- moves ----------------------------------------------------------------------------

    def open(self, stack: int, kind: JsonType) -> int | None:
        """The stack of a container that opens where a value is awaited."""
        pending = self._pending(stack)
        must = pending.must and len(pending.asks) == 1
        frame = (
            self.objects.open(pending.asks, must=must)
            if kind is JsonType.OBJECT
            else self.arrays.open(pending.asks, must=must)
        )
        if not self.can_end(frame, stack):
            return None
        return self.stacks.enter(frame, stack)

    def name_written(self, stack: int, name: str) -> int | None:
        """The stack of the value of a name that the schema spells out."""
        frame = self._object(stack)
        return self._awaited(stack, self.objects.name_written(frame, name))

    def class_written(self, stack: int, number: int, key: bytes | None) -> int | None:
        """The stack of the value of another name, of one class."""
        frame = self._object(stack)
        return self._awaited(stack, self.objects.class_written(frame, number, key))

    def behind_names(self, stack: int) -> int:
        """The stack in which no spelled-out name is left, and free names go on as in this one."""
        found = self._behind_names.get(stack)
        if found is None:
            found = self._behind_names[stack] = self._without_names(stack)
        return found

    def _without_names(self, stack: int) -> int:
        frame = self.stacks.frames[stack]
        if not isinstance(frame, ObjectFrame) or self.objects.any_order:
            return stack
        plain = self.objects.plain(frame)
        if plain is None or self.objects.owed(frame, plain) is not None:
            return stack
        written = len(self.objects.orders[frame.order].names)
        behind = ObjectFrame(frame.goals, frame.must, frame.order, written, frame.keys, begun=True)
        return self.stacks.enter(behind, self.stacks.parents[stack])

    def item_begun(self, stack: int) -> int | None:
        """The stack of the next item."""
        if stack not in self._begun:
            self._begun[stack] = self._item_begun(stack)
        return self._begun[stack]

    def _item_begun(self, stack: int) -> int | None:
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ArrayFrame), frame
        pending = self.arrays.item_begun(frame)
        if pending is not None:
            self._note_next_item(frame, pending)
        if pending is not None and pending.remembers:
            pending = self._without_traps(stack, pending)
        begun = self._awaited(stack, pending)
        if begun is None and pending is not None and not self.may_close(stack):
            # The search knows a way that the likely verdicts miss: that of its own first item.
            value = read_value(b"[" + self.end(stack).lstrip(b","))[0]
            begun = self._hinted(stack, pending, value)
            if begun is None:
                begun = self._only_value(stack, pending, value)
        return begun

    def value_done(self, stack: int, verdict: int, text: bytes | None = None) -> int | None:
        """The stack behind a value; not for the value of the whole document."""
        pending = self._pending(stack)
        parent = self.stacks.parents[stack]
        frame: Frame | None
        if isinstance(pending.frame, ObjectFrame):
            frame = self.objects.value_done(pending, verdict)
        else:
            frame = self.arrays.value_done(pending, verdict, text)
        if frame is None or not (pending.sure or self.can_end(frame, parent)):
            return None
        return self.stacks.enter(frame, parent)

    def closed(self, stack: int) -> int:
        """The verdict on a container that closes."""
        found = self._closed.get(stack)
        if found is None:
            frame = self.stacks.frames[stack]
            if isinstance(frame, ObjectFrame):
                found = self.objects.verdict(frame)
            else:
                assert isinstance(frame, ArrayFrame), frame
                found = self.arrays.verdict(frame)
            self._closed[stack] = found
        return found

    def may_close(self, stack: int) -> bool:
        """Whether a container may close."""
        parent = self.stacks.parents[stack]
        return self.accepts(parent, self.closed(stack))

    def candidates(self, stack: int) -> tuple[tuple[str, ...], frozenset[int]]:
        """The names that may come next, and the classes of other names that may."""
        frame = self._object(stack)
        plain = self.objects.plain(frame)
        if plain is None:
            return self._candidates(stack, frame)
        return self._candidates_of_plain(frame, plain)

    def _candidates(self, stack: int, frame: ObjectFrame) -> tuple[tuple[str, ...], frozenset[int]]:
        names = tuple(
            name
            for name in self._spellable_ahead(frame)
            if self.name_written(stack, name) is not None
        )
        classes = frozenset(
            number
            for number in range(len(self.objects.members.space(frame.goals).classes))
            if self.objects.has_fresh_name(frame, number)
            and self.class_written(stack, number, None) is not None
        )
        if not names and not classes and not self.may_close(stack):
            return self._candidate_of_search(stack, frame)
        return names, classes

    def _candidate_of_search(
        self, stack: int, frame: ObjectFrame
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        """The name with which the way goes on that the search knows."""
        members = read_value(b"{" + self.end(stack).lstrip(b","))
        name, value = next(iter(members.items()))
        if name in self.objects.orders[frame.order].index:
            pending = self.objects.name_written(frame, name)
            assert pending is not None, name
            found = self._hinted(stack, pending, value) is not None
            return ((name,) if found else ()), frozenset()
        number = self.objects.members.class_of(frame, name)
        pending = self.objects.class_written(frame, number, None)
        assert pending is not None, name
        found = self._hinted(stack, pending, value) is not None
        return (), frozenset((number,) if found else ())

    def _candidates_of_plain(
        self, frame: ObjectFrame, plain: Plain
    ) -> tuple[tuple[str, ...], frozenset[int]]:
        possible = self._possible_names(plain.members, frame.order)
        owed = None if self.objects.any_order else self.objects.owed(frame, plain)
        ahead: Iterable[int] = self.objects.ahead(frame)
        if owed is not None:
            ahead = range(frame.written + 1, owed + 1)
        names = tuple(name for place in ahead if (name := possible[place]) is not None)
        return names, self._classes_of_plain(frame, plain) if owed is None else frozenset()

    def _classes_of_plain(self, frame: ObjectFrame, plain: Plain) -> frozenset[int]:
        """The classes of other names that may come next."""
        found = self._classes.get(plain)
        if found is None:
            found = frozenset()
            if self._names_are_free(plain):
                space = self.objects.members.space(frame.goals)
                found = frozenset(
                    number
                    for number, named in enumerate(space.classes)
                    if self.values.text(self.objects.members.of_all(plain.members, named))
                    is not None
                )
            self._classes[plain] = found
        return frozenset(n for n in found if self.objects.has_fresh_name(frame, n))

    def _possible_names(self, members: tuple[Leaf, ...], order: int) -> _PossibleNames:
        found = self._named.get((members, order))
        if found is None:
            found = self._named[members, order] = _PossibleNames(self, members, order)
        return found

    def _spellable_ahead(self, frame: ObjectFrame) -> Iterator[str]:
        """The names that may still stand, as far as they alone are concerned."""
        names = self.objects.orders[frame.order].names
        missing = self.scalars.missing
        for place in self.objects.ahead(frame):
            if not missing or missing.isdisjoint(json_key(names[place])):
                yield names[place]

    def _names_are_free(self, plain: Plain) -> bool:
        return all(
            leaf.assertion.rest is not FALSE or leaf.assertion.patterns
            for leaf in plain.members
            if isinstance(leaf.assertion, Members)
        )

    def _awaited(self, stack: int, pending: Pending | None) -> int | None:
        """The stack of a value, if there is one that leaves a way to the end."""
        if pending is None:
            return None
        inner = self.stacks.enter(pending, self.stacks.parents[stack])
        return inner if self._has_way(inner) else None

    def _hinted(self, stack: int, pending: Pending, value: Json) -> int | None:
        """The stack of a value after which there is a way, as one value is known to show."""
        inner = self.stacks.enter(pending, self.stacks.parents[stack])
        verdict = self._judged(pending.asks, value)
        self._hints[inner] = verdict
        for known in (self._ways, self._accepted, self._short_values):
            known.pop(inner, None)
        return inner if self._has_way(inner) else None

    def _only_value(self, stack: int, pending: Pending, value: Json) -> int | None:
        """The stack of one known value, where no way is found after others with its verdict."""
        self.fuel.incomplete += 1
        narrowed = self._narrowed(pending, formula_of_value(value, self.formulas))
        return None if narrowed is None else self._hinted(stack, narrowed, value)

    def _has_way(self, stack: int) -> bool:
        """Whether some value leaves a way to the end; the first that is found will do."""
        found = self._ways.get(stack)
        if found is None:
            pending = self._pending(stack)
            found = (
                self.values.text(pending.asks[0]) is not None
                if pending.sure
                else self._finds_way(stack, pending)
            )
            self._ways[stack] = found
        return found

    def _finds_way(self, stack: int, pending: Pending) -> bool:
        for verdict in self._possible(stack, pending):
            if (
                self._leaves_a_way(stack, verdict)
                and self._writable(stack, self._one_of(pending.asks, (verdict,))) is not None
            ):
                return True
        self._note_unlikely(stack)
        return False

    def _writable(self, stack: int, wish: Formula) -> bytes | None:
        """A value that can be written where it is awaited, as well as found.

        The search for the end of a container knows all verdicts at once, and may give up on them
        where it finds a value of one verdict.
        """
        text = self.values.text(wish)
        kind = None if text is None else _OPENED.get(text[0])
        return (
            text if kind is None or self.open(stack, kind) is not None else self.values.scalar(wish)
        )

    def _note_unlikely(self, stack: int) -> None:
        """Count a stack in which something may be missed, since likely verdicts alone are."""
        pending = self._pending(stack)
        many = len(pending.asks) > MAX_ENUMERATED_ASKS and not self._keeps_its_way(pending)
        if many and stack not in self._unlikely:
            self._unlikely.add(stack)
            self.fuel.incomplete += 1

    def _without_traps(self, stack: int, pending: Pending) -> Pending | None:
        """Forbid the values after which items that are owed could not differ, or not repeat one."""
        assert isinstance(pending.frame, ArrayFrame)
        if not pending.links and _treats_items_alike(pending.frame):
            return pending  # each value leaves as many that differ
        parent = self.stacks.parents[stack]
        again = self.arrays.repeatable(pending.frame)
        more: dict[Formula, None] = {}
        for verdict in self._possible(stack, pending):
            asked = self._one_of(pending.asks, (verdict,))
            if self.values.text(asked) is None:
                continue
            # What may end the array behind an item that no later one is compared with.
            frame = self.arrays.value_done(pending, verdict, None)
            end = None if frame is None else self.end_of(frame, parent)
            if end is None and again is not None:
                more[self.formulas.any_of([self.formulas.negate(asked), again])] = None
            # Only an item that equals one of those in the end can be in their way.
            for text in _items_of(end) if end is not None else ():
                value = read_value(text)
                if self._judged(pending.asks, value) == verdict:
                    frame = self.arrays.value_done(pending, verdict, text)
                    noted = self._next_items.get(pending.frame)
                    if frame is not None and noted is not None and noted[0] == text:
                        self._inherit_end(frame, noted[1])
                    if frame is None or not self.can_end(frame, parent):
                        same = formula_of_value(value, self.formulas)
                        more[self.formulas.negate(same)] = None
        return self._narrowed(pending, self.formulas.all_of(more)) if more else pending

    def _narrowed(self, pending: Pending, also: Formula) -> Pending | None:
        """The same with one thing more that the value has to fit."""
        asks, links = pending.asks, pending.links
        if pending.must:
            asks = (self.formulas.all_of([asks[0], also]), *asks[1:])
        else:
            asks = (also, *asks)
            links = tuple([(leaf, number + 1) for leaf, number in links])
        if asks[0] is FALSE:
            return None
        return Pending(pending.frame, asks, True, links, pending.remembers, pending.hazy)

    def _judged(self, asks: tuple[Formula, ...], value: Json) -> int:
        """The verdict on a value."""
        return truth_vector(self._fits(ask, value) for ask in asks)

    def _fits(self, ask: Formula, value: Json) -> bool:
        """Whether a value fits a formula."""
        if isinstance(value, list | dict):
            same = formula_of_value(value, self.formulas)
            return self.values.text(self.formulas.all_of([ask, same])) is not None
        if value is None:
            return self.restriction.null(ask)
        if isinstance(value, bool):
            return self.restriction.boolean(ask, value)
        if isinstance(value, str):
            return self.scalars.strings.fits(self.restriction.to(JsonType.STRING, ask), value)
        return self.scalars.numbers.fits(self.restriction.to(JsonType.NUMBER, ask), value)

    def is_rare(self, stack: int, number: int) -> bool:
        """Whether a class has a limited number of names only."""
        return not self.objects.members.space(self._object(stack).goals).is_endless(number)

    def is_roomy(self, stack: int) -> bool:
        """Whether what may follow an item does not depend on which of endlessly many it is."""
        pending = self._pending(stack)
        assert isinstance(pending.frame, ArrayFrame), pending
        if pending.hazy:
            return False
        return (
            _treats_items_alike(pending.frame)
            and not _owes_a_repeat(self._want(pending.frame, self.stacks.parents[stack]))
            and not self.accepts(stack, 0)
            and all(map(self._is_endless, pending.asks))
        )

    def _is_endless(self, ask: Formula) -> bool:
        """Whether of each type of scalars none fit, or others than any given ones."""
        to = self.restriction.to
        strings, numbers = to(JsonType.STRING, ask), to(JsonType.NUMBER, ask)
        return (
            not self.restriction.null(ask)
            and not any(self.restriction.boolean(ask, value) for value in (False, True))
            and (strings is FALSE or self.scalars.strings.are_endless(strings))
            and (numbers is FALSE or self.scalars.numbers.are_endless(numbers))
        )

    # --- what may come of a value ---------------------------------------------------------

    def accepts(self, stack: int, verdict: int) -> bool:
        """Whether a value with this verdict leaves a way to the end."""
        key = (stack, verdict)
        found = self._acceptable.get(key)
        if found is None:
            found = verdict in self.accepted(stack) or self._leaves_a_way(stack, verdict)
            self._acceptable[key] = found
        return found

    def accepted(self, stack: int) -> tuple[int, ...]:
        """The verdicts on the value awaited that leave a way to the end.

        Those of containers are tried in likely combinations only, where many formulas are asked.
        """
        found = self._accepted.get(stack)
        if found is None:
            pending = self._pending(stack)
            if self._keeps_its_way(pending):
                return _FITTING
            possible = self._possible(stack, pending)
            found = tuple(v for v in possible if self._leaves_a_way(stack, v))
            self._accepted[stack] = found
        return found

    @staticmethod
    def _keeps_its_way(pending: Pending) -> bool:
        """Whether a value that fits surely leaves a way."""
        return pending.frame is None or pending.sure

    def _possible(self, stack: int, pending: Pending) -> list[int]:
        """Verdicts that a value may get: all of them, or where they are many the likely ones."""
        if self._keeps_its_way(pending):
            return [1]
        asks, count = pending.asks, len(pending.asks)
        if count <= MAX_ENUMERATED_ASKS:
            return list(range((1 << count) - 1, -1, -1))
        likely = self._likely.get(asks)
        if likely is None:
            likely = self._likely[asks] = self._likely_verdicts(asks)
        hint = self._hints.get(stack)
        return likely if hint is None or hint in likely else [*likely, hint]

    def _likely_verdicts(self, asks: tuple[Formula, ...]) -> list[int]:
        to = self.restriction
        likely: dict[int, None] = {}
        strings = tuple(to.to(JsonType.STRING, ask) for ask in asks)
        numbers = tuple(to.to(JsonType.NUMBER, ask) for ask in asks)
        likely.update(dict.fromkeys(self.scalars.strings.truths(strings)))
        likely.update(dict.fromkeys(self.scalars.numbers.truths(numbers)))
        likely[truth_vector(to.null(ask) for ask in asks)] = None
        for value in (False, True):
            likely[truth_vector(to.boolean(ask, value) for ask in asks)] = None
        for kind in (JsonType.OBJECT, JsonType.ARRAY):
            likely.update(dict.fromkeys(_combinations([to.to(kind, ask) for ask in asks])))
        return list(likely)

    def _leaves_a_way(self, stack: int, verdict: int) -> bool:
        pending = self._pending(stack)
        if self._keeps_its_way(pending):
            return verdict == 1
        if pending.must and not verdict & 1:
            return False
        example = self._example(pending, verdict)
        frame = (
            self.objects.value_done(pending, verdict)
            if isinstance(pending.frame, ObjectFrame)
            else self.arrays.value_done(pending, verdict, example)
        )
        if isinstance(frame, ArrayFrame):
            self._inherit_end_by_verdict(pending, frame, verdict)
        parent = self.stacks.parents[stack]
        return frame is not None and self.can_end(frame, parent)

    def _note_next_item(self, frame: ArrayFrame, pending: Pending) -> None:
        """Keep the first item of the way out that is known, and what follows it."""
        end = self._ends.get((frame, frame.goals[0])) if frame.must else None
        if end is not None and end != b"]":
            assert isinstance(pending.frame, ArrayFrame)
            self._next_items[pending.frame] = _first_item(end)

    def _inherit_end_by_verdict(self, pending: Pending, frame: ArrayFrame, verdict: int) -> None:
        """A way out that began with an item of this verdict is one for the array after it, too."""
        assert isinstance(pending.frame, ArrayFrame)
        noted = self._next_items.get(pending.frame)
        if noted is None or not frame.must:
            return
        first, rest = noted
        matters = pending.remembers or bool(pending.links)
        if not matters or first == self.values.text(self._one_of(pending.asks, (verdict,))):
            self._inherit_end(frame, rest)

    def _inherit_end(self, frame: ArrayFrame, rest: bytes) -> None:
        """Know the end of an array by what was left of a longer one that began with its items."""
        key = (frame, frame.goals[0])
        if frame.must and not self._can_end.get(key):
            self._can_end[key] = True
            self._ends[key] = rest

    def _example(self, pending: Pending, verdict: int) -> bytes | None:
        """An item with this verdict, where others have to differ from it or to repeat it."""
        if not pending.remembers or pending.hazy:
            return None
        return self.values.text(self._one_of(pending.asks, (verdict,)))

    def short_value(self, stack: int) -> bytes:
        """A short value that leaves a way to the end."""
        found = self._short_values.get(stack)
        if found is None:
            asks, verdicts = self._pending(stack).asks, self.accepted(stack)
            # The search may give up on one formula of them all, which has as many parts as all
            # have together, where it finds a value of one verdict.
            wishes: list[tuple[int, ...]] = [(verdict,) for verdict in verdicts]
            if len(verdicts) <= MAX_TOLD_VERDICTS:
                wishes.insert(0, verdicts)
            text: bytes | None = None
            for wish in wishes:
                text = self._writable(stack, self._one_of(asks, wish))
                if text is not None:
                    break
            assert text is not None, asks
            found = self._short_values[stack] = text
        return found

    def _one_of(self, goals: tuple[Formula, ...], verdicts: tuple[int, ...]) -> Formula:
        """That the goals hold just as one of the verdicts says."""
        if verdicts == (1,) and len(goals) == 1:
            return goals[0]
        key = (goals, verdicts)
        found = self._as_judged.get(key)
        if found is None:
            found = self._as_judged[key] = self._new_one_of(goals, verdicts)
        return found

    def _new_one_of(self, goals: tuple[Formula, ...], verdicts: tuple[int, ...]) -> Formula:
        known = set(verdicts)
        # What stays acceptable when more holds need not be said to fail.
        upward = all(
            verdict | 1 << bit in known for verdict in verdicts for bit in range(len(goals))
        )
        if upward:
            verdicts = tuple(
                v for v in verdicts if not any(w != v and w & v == w for w in verdicts)
            )
        return self.formulas.any_of(
            self.formulas.all_of(
                goal if verdict >> i & 1 else self.formulas.negate(goal)
                for i, goal in enumerate(goals)
                if verdict >> i & 1 or not upward
            )
            for verdict in verdicts
        )

    # --- ways out -------------------------------------------------------------------------

    def end(self, stack: int) -> bytes:
        """What completes the container of a stack, its closing bracket included."""
        frame = self.stacks.frames[stack]
        text = self.end_of(frame, self.stacks.parents[stack])
        assert text is not None, frame
        return text

    def can_end(self, frame: Frame, parent: int) -> bool:
        """Whether something completes a container inside ``parent``."""
        assert not isinstance(frame, Pending)
        key = (frame, self._want(frame, parent))
        found = self._can_end.get(key)
        if found is None:
            found = self._can_end[key] = self.end_of(frame, parent) is not None
        if not found and not frame.must:
            self._note_unlikely(parent)
        return found

    def end_of(self, frame: Frame, parent: int) -> bytes | None:
        """What completes a container inside ``parent``, ``None`` where nothing was found."""
        assert not isinstance(frame, Pending)
        want = self._want(frame, parent)
        key = (frame, want)
        found = self._ends.get(key)
        if found is None and self._can_end.get(key) is not False:
            incomplete = self.fuel.incomplete
            found = self._search_end(frame, want)
            if found is None and not frame.must and self.fuel.incomplete > incomplete:
                found = self._end_by_verdict(frame, parent)
            if found is not None and len(found) < MAX_KEPT_BYTES // 16:
                self._ends[key] = found
        return found

    def _end_by_verdict(self, frame: ObjectFrame | ArrayFrame, parent: int) -> bytes | None:
        """What the search finds for one verdict where it gives up on all of them together."""
        hint = self._hints.get(parent)
        for verdict in sorted(self.accepted(parent), key=lambda verdict: verdict != hint):
            found = self._search_end(frame, self._one_of(frame.goals, (verdict,)))
            if found is not None:
                return found
        return None

    def _want(self, frame: ObjectFrame | ArrayFrame, parent: int) -> Formula:
        return frame.goals[0] if frame.must else self._one_of(frame.goals, self.accepted(parent))

    def _search_end(self, frame: ObjectFrame | ArrayFrame, want: Formula) -> bytes | None:
        def realise(literals: Literals) -> bytes | None:
            if isinstance(frame, ObjectFrame):
                return ObjectEnding(self.objects, frame, literals).text()
            return ArrayEnding(self.restriction, self.values, frame, literals).text()

        if self._fits_at_its_end(frame, want):
            return b"}" if isinstance(frame, ObjectFrame) else b"]"
        return satisfy(want, self.formulas, realise, self.fuel)

    def _fits_at_its_end(self, frame: ObjectFrame | ArrayFrame, want: Formula) -> bool:
        if isinstance(frame, ObjectFrame):
            return evaluate(want, self.objects.at_the_end(frame))
        return evaluate(want, arrays.at_the_end)

    def _shortest_object(self, formula: Formula) -> bytes | None:
        frame = self.objects.open((formula,), must=True)
        text = self._search_end(frame, frame.goals[0])
        return None if text is None else b"{" + text

    def _shortest_array(self, formula: Formula) -> bytes | None:
        frame = self.arrays.open((formula,), must=True)
        text = self._search_end(frame, frame.goals[0])
        return None if text is None else b"[" + text

    # --- parts ----------------------------------------------------------------------------

    def _pending(self, stack: int) -> Pending:
        pending = self.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        return pending

    def _object(self, stack: int) -> ObjectFrame:
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return frame


class _PossibleNames(dict[int, str | None]):
    """The names of an order by their place, ``None`` for those without a value or a spelling."""

    def __init__(self, evaluation: Evaluation, members: tuple[Leaf, ...], order: int) -> None:
        self.evaluation = evaluation
        self.members = members
        self.names = evaluation.objects.orders[order].names

    def __missing__(self, place: int) -> str | None:
        objects, name = self.evaluation.objects, self.names[place]
        is_possible = (
            objects.scalars.missing.isdisjoint(json_key(name))
            and objects.values.text(objects.members.of_all(self.members, name)) is not None
        )
        found = self[place] = name if is_possible else None
        return found


def _treats_items_alike(frame: ArrayFrame) -> bool:
    """Whether of an item that fits nothing matters to later ones but that they must differ."""
    return all(
        isinstance(leaf.assertion, Unique | ItemCount)
        or (isinstance(leaf.assertion, Items) and not leaf.assertion.prefix)
        for leaf in leaves_of(frame.goals)
    )


def _owes_a_repeat(want: Formula) -> bool:
    """Whether items of an array that is to fit a formula may have to repeat others."""
    waiting = [want]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Not):
            if any(isinstance(leaf.assertion, Unique) for leaf in leaves_of((part,))):
                return True
        else:
            waiting += parts_of(part)
    return False


def _first_item(end: bytes) -> tuple[bytes, bytes]:
    """The first of the items that complete an array, and what follows it."""
    text = end.decode()
    start = int(text[0] == ",")
    _, behind = _DECODER.raw_decode(text, start)
    return text[start:behind].encode(), text[behind:].encode()


def _items_of(end: bytes) -> Iterator[bytes]:
    """All of them."""
    while end != b"]":
        first, end = _first_item(end)
        yield first


def _combinations(asks: list[Formula]) -> Iterator[int]:
    """Verdicts on formulas that are open: all, or where these are many those that differ little
    from all and from none.
    """
    known = sum(1 << i for i, ask in enumerate(asks) if ask is TRUE)
    bits = [1 << i for i, ask in enumerate(asks) if ask not in (TRUE, FALSE)]
    every = sum(bits)
    if len(bits) <= MAX_ENUMERATED_ASKS:
        for number in reversed(range(1 << len(bits))):
            yield known + sum(bit for i, bit in enumerate(bits) if number >> i & 1)
        return
    yield known + every
    yield from (known + bit for bit in bits)
    yield known
    yield from (known + every - bit for bit in bits)
