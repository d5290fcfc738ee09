"""A shortest value for every formula, and with it which formulas can be fitted at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula, SchemaNode
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.search import Searches
from guided.runtime.fuel import spend

__all__ = ["MAX_SHORTEST_BYTES", "ShortestValues"]

MAX_SHORTEST_BYTES: Final = 100_000
"""Formulas whose values are all longer count as empty."""
CALLS_OF_A_VALUE: Final = 20
"""Calls from one value to the next inside it."""
Containers = Callable[[Formula], bytes | None]


class ShortestValues:
    """Shortest texts by formula.

    Formulas refer to each other in circles. A value never needs another of the same formula inside,
    so a formula requested while it is being searched has none; such a result holds only inside that
    search, and is not kept.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars, searches: Searches) -> None:
        self.restriction = restriction
        self.scalars = scalars
        self.searches = searches
        self.array: Containers = lambda _: None
        self.object: Containers = lambda _: None
        """Shortest arrays and objects; ``Evaluation`` sets both."""
        self.too_long = False
        """Whether a formula counts as empty only because its values are too long."""
        self._known: dict[Formula, bytes | None] = {}
        self._depth: dict[Formula, int] = {}
        """The formulas that are being searched, by how many others contain them."""
        self._lowest = 0
        """The least depth of a formula that the innermost search has come back to, or its own."""

    @property
    def missing(self) -> int:
        """Searches that gave up or found only too long texts, so that values may be missing."""
        return self.searches.incomplete + self.too_long

    def text(self, formula: Formula) -> bytes | None:
        """Return a short JSON text that fits, ``None`` if none was found.

        Raises LimitExceededError if values or automata grow too deep or too large.
        """
        if formula in self._known:
            return self._known[formula]
        # The search came back to this formula: a value inside itself is never the shortest.
        if formula in self._depth:
            self._lowest = min(self._lowest, self._depth[formula])
            return None
        spend(5)
        depth = self._depth[formula] = len(self._depth)
        outer, self._lowest = self._lowest, depth
        missing = self.missing
        try:
            text = self.searches.nesting.within(CALLS_OF_A_VALUE, lambda: self._search(formula))
        finally:
            del self._depth[formula]
            if isinstance(formula, SchemaNode) and self.missing > missing:
                self.searches.node = self.searches.node or formula
            lowest, self._lowest = self._lowest, min(outer, self._lowest)
        # A failure that depends on a formula further out may be a success from elsewhere.
        if text is not None or lowest >= depth:
            self._known[formula] = text
        return text

    def _search(self, formula: Formula) -> bytes | None:
        """Return a short value that fits: a scalar, or, if that is long, a shorter container.

        ``too_long`` is set if the best has more than MAX_SHORTEST_BYTES, and never reset.
        """
        best = self.scalar(formula)
        # Below the length of a small object little is gained, and searching a container costs most.
        if best is None or len(best) > len(b'{"":0}'):
            for kind, shortest in ((JsonType.ARRAY, self.array), (JsonType.OBJECT, self.object)):
                if self.restriction.to(kind, formula) is not FALSE:
                    text = shortest(formula)
                    if text is not None and (best is None or len(text) < len(best)):
                        best = text
        if best is not None and len(best) > MAX_SHORTEST_BYTES:
            self.too_long = True
            return None
        return best

    def scalar(self, formula: Formula) -> bytes | None:
        """Return a short text of a value that fits and is no container, ``None`` if there is none.

        Counts where there may be one all the same: too long, or left out of the automata. Not kept
        here; ``text`` keeps the best of all types.
        """
        to, missing = self.restriction, self.scalars.missing
        texts: list[bytes] = []
        if to.null(formula):
            texts.append(b"null")
        texts += [
            text
            for value, text in ((True, b"true"), (False, b"false"))
            if to.boolean(formula, value)
        ]
        texts = [text for text in texts if missing.isdisjoint(text)]
        numbers = to.to(JsonType.NUMBER, formula)
        number = self.scalars.numbers.shortest(numbers)
        if number is not None:
            texts.append(number)
        elif numbers is not FALSE and self.scalars.numbers.is_narrowed(numbers):
            self.searches.incomplete += 1
        # One digit cannot be beaten by a string, which has two quotes.
        if number is None or len(number) > 1:
            strings = to.to(JsonType.STRING, formula)
            if self.scalars.shortest_strings.least_length(strings) > MAX_SHORTEST_BYTES:
                self.too_long = True
            elif (string := self.scalars.shortest_strings.shortest(strings)) is not None:
                texts.append(string)
        return min(texts, key=len, default=None)
