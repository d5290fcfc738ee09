"""Names that the schema does not spell out: whether a prefix can be completed, and how."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Collection, Iterator
from typing import Final

from cachetools import LRUCache

from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.name_order import NameOrder
from guided.json_schema.machine.scalar_blocks import json_literal
from guided.json_schema.machine.stacks import ObjectFrame
from guided.machine.table import TransitionTable

__all__ = ["AdditionalNames"]

_MAX_CACHED: Final = 16_384
"""The most results of ``can_close`` that are cached."""
_KEY_TRIES: Final = 2_000
"""The most names tried in ``can_close``."""


class AdditionalNames:
    """Finds how an additional name that was begun may end.

    ``stack`` is that of the object, ``row`` the row inside the name, and ``prefix`` the bytes of
    the name so far. A key is a name as JSON spells it, without the quotes.
    """

    def __init__(self, evaluation: Evaluation, table: TransitionTable) -> None:
        self._evaluation = evaluation
        self._stacks = evaluation.stacks
        self._table = table
        self._can_close_cache: LRUCache[tuple[int, int, bytes], bool] = LRUCache(_MAX_CACHED)
        """The results of ``can_close`` by its arguments."""

    def can_close(self, stack: int, row: int, prefix: bytes) -> bool:
        """Return whether a name that begins with ``prefix`` is left that may be written.

        ``False`` also after _KEY_TRIES names that are taken, so that some may be left out.
        """
        # More names begin so than can be taken.
        if self._table.names_left[row] > self._stacks.max_names_taken(stack):
            return True
        at = (stack, row, prefix)
        found = self._can_close_cache.get(at)
        if found is None:
            closing_texts = itertools.islice(self._closing_texts(row), _KEY_TRIES)
            taken = self._stacks.additional_names(stack)
            found = any(
                self._is_allowed(stack, prefix + text[:-1], taken) for text in closing_texts
            )
            self._can_close_cache[at] = found
        return found

    def closing_text(self, stack: int, row: int, prefix: bytes) -> bytes:
        """Return the rest of a name with its closing quote.

        It is a name in the completion of the object, if one begins so, else the shortest that is
        allowed. Only for states that a machine has entered, which ``can_close`` has checked: one
        more name is tried than can be refused.
        """
        owed = self._evaluation.completions.shortest(stack).lstrip(b",")
        for name in json.loads(b"{" + owed):
            key = json_literal(name)[1:]
            # A name late in the order may not be allowed until others were written.
            if key.startswith(prefix) and self._is_allowed(stack, key[:-1], ()):
                return key[len(prefix) :]
        taken = self._stacks.additional_names(stack)
        refused = len(taken) + len(self._order(stack).encoded)
        for text in itertools.islice(self._closing_texts(row), refused + 1):
            if self._is_allowed(stack, prefix + text[:-1], taken):
                return text
        raise AssertionError(f"no name is left in stack {stack} after {prefix!r}")

    def _order(self, stack: int) -> NameOrder:
        """Return the names that the schema spells out for the object."""
        frame = self._stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return self._evaluation.objects.orders[frame.order]

    def _is_allowed(self, stack: int, key: bytes, taken: Collection[bytes]) -> bool:
        """Return whether the object of ``stack`` may get a member with the name ``key``.

        The schema may spell out the name. ``taken`` are the object's additional names; it may be
        empty if ``key`` is known to be none of them. The class of an additional name is not
        checked: the row that it was found from implies it.
        """
        if key in self._order(stack).encoded:
            name = json.loads(b'"' + key + b'"')
            return self._evaluation.names.enter_named_value(stack, name) is not None
        return key not in taken

    def _closing_texts(self, row: int) -> Iterator[bytes]:
        """Yield the texts from ``row`` to the end of the closing quote, about the shortest first.

        There may be infinitely many. Names that the schema spells out are included. They may come
        late: DISTANCE of an overlay is that of the row below, which need not spell them.
        """
        # The order: bytes in all, minus those so far, a counter for ties. Then the row and the
        # text.
        ties = itertools.count()
        heap = [(int(self._table.distance[row]), 0, next(ties), row, b"")]
        while heap:
            _, _, _, row, text = heapq.heappop(heap)
            if self._table.exits[row]:
                yield text
                continue
            for byte, target in self._table.edges(row).items():
                more = text + bytes((byte,))
                total = len(more) + int(self._table.distance[target])
                heapq.heappush(heap, (total, -len(more), next(ties), target, more))
