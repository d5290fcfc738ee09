"""Shortest completions of open containers: how they are searched for and cached.

A completion of a container is the shortest text that ends it, closing bracket included. A byte is
allowed only if completions of all open containers are known, so no mask leads into a dead end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from cachetools import LRUCache

from guided.json_schema.formulas.assertions import ItemCount, Items
from guided.json_schema.formulas.formula import TRUE, Formula, evaluate
from guided.json_schema.machine import arrays
from guided.json_schema.machine.array_completions import ArrayCompletion
from guided.json_schema.machine.arrays import ArrayRules
from guided.json_schema.machine.object_completions import ObjectCompletion
from guided.json_schema.machine.objects import ObjectRules
from guided.json_schema.machine.search import Literals, Searches, satisfy
from guided.json_schema.machine.stacks import (
    ArrayFrame,
    AwaitedValue,
    Frame,
    ObjectFrame,
    Stacks,
    accepts_any_fitting,
)
from guided.json_schema.machine.truth_vectors import MAX_ENUMERATED_FORMULAS, TruthVectors

__all__ = ["ContainerCompletions", "split_items"]

MAX_FIRST_ITEMS: Final = 8
"""The most completions searched for to find out which items may come next."""
MAX_KEPT_BYTES: Final = 4 * 2**20
"""The size of each cache of completions, in bytes."""
_DECODER: Final = json.JSONDecoder()


class ContainerCompletions:
    """Finds and caches completions of the containers of one grammar.

    A container without a required goal is completed so that its parent accepts its truth vector.
    ``accepted_vectors`` returns those that the parent accepts, and in turn needs completions of the
    parent: each step leads one level out, so it ends at the root.
    """

    def __init__(
        self,
        vectors: TruthVectors,
        objects: ObjectRules,
        arrays: ArrayRules,
        stacks: Stacks,
        searches: Searches,
    ) -> None:
        self.vectors: Final = vectors
        self.objects: Final = objects
        self.arrays: Final = arrays
        self.values: Final = vectors.values
        self.stacks: Final = stacks
        self.searches: Final = searches
        self.accepted_vectors: Callable[[int], tuple[int, ...]]
        """The truth vectors of a value that its stack accepts; ``ValueStacks`` sets it."""
        self.hints: Final[dict[int, int]] = {}
        """The truth vector of a value that is known to leave a completion, by stack; written by
        ``ValueStacks``."""
        # Of what surrounds a container, only ``required_formula`` matters to its completion.
        self._cache: LRUCache[tuple[Frame, Formula], bytes] = LRUCache(MAX_KEPT_BYTES, len)
        """The completion of a container, by its frame and ``required_formula``."""
        self._rests: Final[dict[tuple[Frame, Formula], bytes]] = {}
        """Completions that ``set_completion`` brought, by the same keys.

        Never evicted, as a search might not find them. Once they take MAX_KEPT_BYTES, others are
        kept in ``_cache``.
        """
        self._rests_nbytes = 0
        self._is_completable: dict[tuple[Frame, Formula], bool] = {}
        """Whether a completion was found, by the same keys as ``_cache``.

        Never evicted, unlike the text: a second search, with another work budget, might fail.
        """
        self._recorded_items: LRUCache[ArrayFrame, tuple[bytes, bytes]] = LRUCache(
            MAX_KEPT_BYTES, lambda texts: sum(map(len, texts))
        )
        """The next item in a known completion of an array, and what follows it there, by the frame
        that the array has after that item."""
        self._counted_stacks: set[int] = set()
        """The stacks that ``count_possible_miss`` has counted."""

    def shortest(self, stack: int) -> bytes:
        """Return the completion of the innermost container of a stack.

        Only for stacks that a machine has entered, which have one (``can_complete``).
        """
        frame = self.stacks.frames[stack]
        text = self.shortest_of_frame(frame, self.stacks.parents[stack])
        assert text is not None, frame
        return text

    def can_complete(self, frame: Frame, parent: int) -> bool:
        """Return whether a completion of a container in ``parent`` is found.

        ``False`` may change only if ``set_completion`` brings one that no search found.
        """
        assert not isinstance(frame, AwaitedValue)
        key = (frame, self.required_formula(frame, parent))
        found = self._is_completable.get(key)
        if found is None:
            found = self._is_completable[key] = self.shortest_of_frame(frame, parent) is not None
        # The result is cached by frame and formula, but possible misses are counted by parent: so
        # this is called each time, even for a cached result.
        if not found and not frame.required:
            self.count_possible_miss(parent)
        return found

    def shortest_of_frame(self, frame: Frame, parent: int) -> bytes | None:
        """Return the completion of a container inside ``parent``, ``None`` if none was found.

        Cached, except for very long ones, which would evict many others. Where ``can_complete`` has
        returned ``False``, no further search is made.
        """
        assert not isinstance(frame, AwaitedValue)
        required_formula = self.required_formula(frame, parent)
        key = (frame, required_formula)
        found = self._kept(key)
        if found is None and self._is_completable.get(key) is not False:
            incomplete = self.searches.num_incomplete
            found = self._search(frame, required_formula)
            # The search gave up on all accepted truth vectors together. One alone is a smaller
            # formula, so each is tried separately.
            if found is None and not frame.required and self.searches.num_incomplete > incomplete:
                found = self._search_by_vector(frame, parent)
            if found is not None and len(found) < MAX_KEPT_BYTES // 16:
                self._cache[key] = found
        return found

    def _kept(self, key: tuple[Frame, Formula]) -> bytes | None:
        found = self._rests.get(key)
        return self._cache.get(key) if found is None else found

    def _search_by_vector(self, frame: ObjectFrame | ArrayFrame, parent: int) -> bytes | None:
        """Search for a completion with each single truth vector that ``parent`` accepts.

        One that is known to do (``hints``) comes first; ``None`` if none is found.
        """
        hint = self.hints.get(parent)
        for truth_vector in sorted(
            self.accepted_vectors(parent), key=lambda truth_vector: truth_vector != hint
        ):
            found = self._search(frame, self.vectors.as_formula(frame.goals, (truth_vector,)))
            if found is not None:
                return found
        return None

    def required_formula(self, frame: ObjectFrame | ArrayFrame, parent: int) -> Formula:
        """Return the formula that a container has to fit so that it may close in ``parent``."""
        if frame.required:
            return frame.goals[0]
        return self.vectors.as_formula(frame.goals, self.accepted_vectors(parent))

    def _search(self, frame: ObjectFrame | ArrayFrame, required_formula: Formula) -> bytes | None:
        """Search for a text that makes a container fit ``required_formula`` and closes it.

        ``None`` if there is none, or if the search gave up, which ``searches.num_incomplete``
        counts. If the container fits as it is, it closes. Otherwise ``satisfy`` chooses which
        assertions have to hold, and the search for members or items tries to make them hold.
        """

        def realise(literals: Literals) -> bytes | None:
            if isinstance(frame, ObjectFrame):
                return ObjectCompletion(self.objects, frame, literals).text()
            return ArrayCompletion(self.vectors.restriction, self.values, frame, literals).text()

        if self._may_close(frame, required_formula):
            return b"}" if isinstance(frame, ObjectFrame) else b"]"
        return satisfy(required_formula, self.vectors.formulas, realise, self.searches)

    def _may_close(self, frame: ObjectFrame | ArrayFrame, required_formula: Formula) -> bool:
        """Return whether a container fits ``required_formula`` if it closes here."""
        if isinstance(frame, ObjectFrame):
            return evaluate(required_formula, self.objects.holds_at_close(frame))
        return evaluate(required_formula, arrays.holds_at_close)

    def shortest_object(self, formula: Formula) -> bytes | None:
        """Return a short object that fits a formula."""
        frame = self.objects.open((formula,), required=True)
        text = self._search(frame, frame.goals[0])
        return None if text is None else b"{" + text

    def shortest_array(self, formula: Formula) -> bytes | None:
        """Return a short array that fits a formula."""
        frame = self.arrays.open((formula,), required=True)
        text = self._search(frame, frame.goals[0])
        return None if text is None else b"[" + text

    def count_possible_miss(self, stack: int) -> None:
        """Count a stack as incomplete, once, if only likely truth vectors of its value were tried.

        That is so where the value has too many formulas to try every truth vector.
        """
        awaited = self.stacks.frames[stack]
        assert isinstance(awaited, AwaitedValue), awaited
        many = len(awaited.formulas) > MAX_ENUMERATED_FORMULAS and not accepts_any_fitting(awaited)
        if many and stack not in self._counted_stacks:
            self._counted_stacks.add(stack)
            self.searches.num_incomplete += 1

    # --- what is left of a longer completion ----------------------------------------------

    def record_next_item(self, frame: ArrayFrame, awaited: AwaitedValue) -> None:
        """Record the first item of the cached completion of ``frame``, and what follows it.

        ``awaited`` awaits the next item of ``frame``; what is recorded is found by its frame. Does
        nothing unless the goal of the array is required and its completion cached.
        """
        completion = self._kept((frame, frame.goals[0])) if frame.required else None
        if completion is not None and completion != b"]":
            assert isinstance(awaited.frame, ArrayFrame)
            self._recorded_items[awaited.frame] = split_first_item(completion)

    def reuse_completion(self, awaited: AwaitedValue, frame: ArrayFrame, truth_vector: int) -> None:
        """Set the completion of an array after an item, if a recorded one begins with such an item.

        ``frame`` is the array after an item with this truth vector; where its text matters and is
        known, it is the one that ``values.text`` returns for the vector. Without a record nothing
        is set, and ``can_complete`` searches.
        """
        assert isinstance(awaited.frame, ArrayFrame)
        recorded = self._recorded_items.get(awaited.frame)
        if recorded is None:
            return
        first, rest = recorded
        # If neither the truth vector nor the text matters, the same frame follows any item.
        matters = awaited.remembers_text or bool(awaited.dependent_assertions)
        if not matters or first == self.values.text(
            self.vectors.as_formula(awaited.formulas, (truth_vector,))
        ):
            self.set_completion(frame, rest)

    def completable_items(self, stack: int, formula: Formula) -> Formula:
        """Return the formula of the next items that fit ``formula`` and that a completion follows.

        Each completion found gives the formula of its first item, and the next one must have
        another item there. After ``MAX_FIRST_ITEMS`` of them more may be missed, which is counted.
        """
        frame = self.stacks.frames[stack]
        assert isinstance(frame, ArrayFrame), frame
        formulas = self.vectors.formulas
        required_formula = self.required_formula(frame, self.stacks.parents[stack])
        one_item = formulas.leaf(ItemCount(1, None))

        def realise(literals: Literals) -> list[Formula] | None:
            return ArrayCompletion(
                self.vectors.restriction, self.values, frame, literals
            ).item_formulas()

        found: list[Formula] = []
        for _ in range(MAX_FIRST_ITEMS):
            other = formulas.all_of([formula, *map(formulas.negate, found)])
            first = formulas.leaf(Items((other,), TRUE))
            goal = formulas.all_of([required_formula, one_item, first])
            items = satisfy(goal, formulas, realise, self.searches)
            if items is None:
                return formulas.any_of(found)
            found.append(items[0])
        self.searches.num_incomplete += 1
        return formulas.any_of(found)

    def recorded_next_item(self, frame: ArrayFrame) -> tuple[bytes, bytes] | None:
        """Return the recorded next item in a completion, and what follows it there.

        ``frame`` is the array with that item counted in.
        """
        return self._recorded_items.get(frame)

    def set_completion(self, frame: ArrayFrame, rest: bytes) -> None:
        """Cache ``rest``, the rest of a longer completion, as the completion of an array.

        It is not checked. Does nothing if one was found before, or if the array may close: then
        ``can_complete`` needs none. Only for arrays with a required goal, as those of recorded
        items have.
        """
        assert frame.required, frame
        key = (frame, frame.goals[0])
        # Also where a search has failed before: this is a completion that it did not find.
        if self._is_completable.get(key) or self._kept(key) is not None or self._may_close(*key):
            return
        self._is_completable[key] = True
        if self._rests_nbytes + len(rest) > MAX_KEPT_BYTES:
            self._cache[key] = rest
        else:
            self._rests[key] = rest
            self._rests_nbytes += len(rest)


def split_first_item(completion: bytes) -> tuple[bytes, bytes]:
    """Split the completion of an array into its first item and what follows.

    It has at least one item, and may begin with a comma; what follows begins with a comma or the
    bracket.
    """
    text = completion.decode()
    start = int(text[0] == ",")
    _, after = _DECODER.raw_decode(text, start)
    return text[start:after].encode(), text[after:].encode()


def split_items(completion: bytes) -> Iterator[bytes]:
    """Yield the items in the completion of an array."""
    while completion != b"]":
        first, completion = split_first_item(completion)
        yield first
