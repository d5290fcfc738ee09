"""The shortest value of each formula, and with it which formulas are satisfiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula, SchemaNode
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Searches
from guided.runtime.work_budget import spend

__all__ = ["MAX_SHORTEST_BYTES", "ShortestValues"]

MAX_SHORTEST_BYTES: Final = 100_000
"""Formulas whose values are all longer count as unsatisfiable."""
CALLS_OF_A_VALUE: Final = 20
"""Nested Python calls from one value to the next inside it."""
_ShortestContainer = Callable[[Formula], bytes | None]


class ShortestValues:
    """Finds and caches a shortest text for each formula.

    Formulas may refer to each other in cycles. A shortest value never contains another value of the
    same formula, so a formula that is requested while it is being searched counts as having none.
    A failure that depends on that holds only inside the search, and is not cached.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars, searches: Searches) -> None:
        self.restriction = restriction
        self.scalars = scalars
        self.searches = searches
        self.array: _ShortestContainer = lambda _: None
        self.object: _ShortestContainer = lambda _: None
        """Return a shortest array or object that fits a formula; ``Evaluation`` sets both."""
        self.exceeded: tuple[int, str] | None = None
        """A limit, and what some values have more of that were therefore not tried."""
        self.empty_node: SchemaNode | None = None
        """The first node that no value fits, innermost, in what the current search has tried."""
        self.num_partly_listed = 0
        """How often a number was found of multiples that automata leave out in part."""
        self._cache: dict[Formula, bytes | None] = {}
        """The shortest value that fits, by formula; ``None`` if none was found."""
        self._depth: dict[Formula, int] = {}
        """The nesting depth of each formula that is being searched."""
        self._lowest = 0
        """The least depth of a formula that the current search has requested again, or its own."""
        self._gave_up = False
        """Whether the current search may have missed values of what it has tried."""
        self._uncertain: set[Formula] = set()
        """Formulas of which no value was found, though one may have been missed."""

    @property
    def num_given_up(self) -> int:
        """How often values may have been missed: by a search that gave up, or as too long."""
        return self.searches.num_incomplete + (self.exceeded is not None)

    def note_exceeded(self, limit: int, what: str) -> None:
        """Note that values with more than ``limit`` of something were not tried."""
        self._gave_up = True
        self.exceeded = self.exceeded or (limit, what)

    def text(self, formula: Formula) -> bytes | None:
        """Return a short JSON text that fits, ``None`` if none was found.

        Raises LimitExceededError if values or automata grow too deep or too large.
        """
        if not self._depth:  # a search of its own
            self.empty_node = None
        if formula in self._cache:
            if self._cache[formula] is None:
                self._note_failure(formula)
            return self._cache[formula]
        # A cycle: a value that contains another of the same formula is never the shortest.
        if formula in self._depth:
            self._lowest = min(self._lowest, self._depth[formula])
            return None
        spend(5)
        depth = self._depth[formula] = len(self._depth)
        outer, self._lowest = self._lowest, depth
        outer_gave_up, self._gave_up = self._gave_up, False
        given_up, empty_node = self.num_given_up, self.empty_node
        try:
            text = self.searches.nesting.call(CALLS_OF_A_VALUE, lambda: self._search(formula))
        finally:
            del self._depth[formula]
            if self.num_given_up > given_up:
                node = self._node_of(formula)
                self.searches.first_incomplete_node = self.searches.first_incomplete_node or node
            lowest, self._lowest = self._lowest, min(outer, self._lowest)
            gave_up = self._gave_up or self.num_given_up > given_up
            self._gave_up = outer_gave_up
        # A failure may depend on a formula further out that counted as having no value.
        if text is not None or lowest >= depth:
            self._cache[formula] = text
        if text is not None:
            # What was empty inside was not needed.
            self.empty_node = empty_node
            return text
        if gave_up:
            self._uncertain.add(formula)
        if gave_up or lowest >= depth:
            self._note_failure(formula)
        return None

    def innermost_empty(self, node: SchemaNode) -> SchemaNode | None:
        """Return the first node without a value that the search for one of ``node`` met, innermost.

        That may be ``node`` itself. ``None`` if it has a value, or if none is known to be without.
        Raises what ``text`` raises.
        """
        return None if self.text(node) is not None else self.empty_node

    def _note_failure(self, formula: Formula) -> None:
        """Note for the current search that no value was found for a formula."""
        if formula in self._uncertain:
            self._gave_up = True
        else:
            self.empty_node = self.empty_node or self._node_of(formula)

    def _node_of(self, formula: Formula) -> SchemaNode | None:
        """Return the node that a formula is, or was inlined from; ``None`` if there is none.

        None for FALSE either, as nodes all over the schema may become it.
        """
        if isinstance(formula, SchemaNode):
            return formula.target
        return None if formula is FALSE else self.restriction.inliner.origin.get(formula)

    def _search(self, formula: Formula) -> bytes | None:
        """Compute ``text``: a scalar, or a container if that is shorter.

        Calls ``note_exceeded`` if the best has more than MAX_SHORTEST_BYTES.
        """
        best = self.scalar(formula)
        # Below the length of a small object little is gained, and searching a container costs most.
        if best is None or len(best) > len(b'{"":0}'):
            for kind, shortest in ((JsonType.ARRAY, self.array), (JsonType.OBJECT, self.object)):
                if self.restriction.to_type(kind, formula) is not FALSE:
                    text = shortest(formula)
                    if text is not None and (best is None or len(text) < len(best)):
                        best = text
        if best is not None and len(best) > MAX_SHORTEST_BYTES:
            self.note_exceeded(MAX_SHORTEST_BYTES, "bytes")
            return None
        return best

    def scalar(self, formula: Formula) -> bytes | None:
        """Return a short text of a scalar that fits, ``None`` if none is found.

        Scalars that are too long or left out of automata are counted (``num_given_up``; where there
        are others beside those left out, ``num_partly_listed``).
        """
        restriction, unavailable = self.restriction, self.scalars.unavailable_bytes
        texts: list[bytes] = []
        if restriction.fits_null(formula):
            texts.append(b"null")
        texts += [
            text
            for value, text in ((True, b"true"), (False, b"false"))
            if restriction.fits_boolean(formula, value)
        ]
        texts = [text for text in texts if unavailable.isdisjoint(text)]
        numbers = restriction.to_type(JsonType.NUMBER, formula)
        number = self.scalars.numbers.shortest(numbers)
        if number is not None:
            texts.append(number)
        if numbers is not FALSE and self.scalars.numbers.omits_multiples(numbers):
            # A number that was found is no reason to doubt that there is no value around it.
            self.searches.num_incomplete += number is None
            self.num_partly_listed += number is not None
        # One digit cannot be beaten by a string, which has two quotes.
        if number is None or len(number) > 1:
            strings = restriction.to_type(JsonType.STRING, formula)
            if self.scalars.shortest_strings.min_length(strings) > MAX_SHORTEST_BYTES:
                self.note_exceeded(MAX_SHORTEST_BYTES, "bytes")
            elif (string := self.scalars.shortest_strings.shortest(strings)) is not None:
                texts.append(string)
        return min(texts, key=len, default=None)
