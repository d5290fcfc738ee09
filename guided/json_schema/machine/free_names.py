"""Names that the schema does not spell out: which may still be closed, and how."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Collection, Iterator
from typing import Final

from cachetools import LRUCache

from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.objects import Order
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.stacks import ObjectFrame
from guided.machine.table import TransitionTable

__all__ = ["FreeNames"]

_REMEMBERED_KEYS: Final = 16_384
_KEY_TRIES: Final = 2_000
"""The most names tried to find one that is not taken."""


class FreeNames:
    """Finds how names that were begun in an object may end.

    A key is what stands between the quotes, as JSON spells it. ``row`` is a row of such a name in
    the table, ``stack`` that of its object, ``begun`` the bytes of the name so far.
    """

    def __init__(self, evaluation: Evaluation, table: TransitionTable) -> None:
        self._evaluation = evaluation
        self._stacks = evaluation.stacks
        self._table = table
        self._closable: LRUCache[tuple[int, int, bytes], bool] = LRUCache(_REMEMBERED_KEYS)

    def can_close(self, stack: int, row: int, begun: bytes) -> bool:
        """Return whether a begun name, now in ``row``, can become one that is not taken.

        After _KEY_TRIES names that are taken it returns False, which forbids a name and lets none
        in. A forgotten result is computed again and is the same.
        """
        # The state leads to more names than can be taken, so one of them is free.
        if self._table.names_left[row] > self._stacks.taken(stack):
            return True
        at = (stack, row, begun)
        found = self._closable.get(at)
        if found is None:
            ends = itertools.islice(self._endings(row), _KEY_TRIES)
            taken = self._stacks.free_keys(stack)
            found = any(self._may_stand(stack, begun + text[:-1], taken) for text in ends)
            self._closable[at] = found
        return found

    def ending(self, stack: int, row: int, begun: bytes) -> bytes:
        """Return the bytes that close a begun name, as one that the object owes if one fits.

        Only for states that a machine has entered: these leave a name, which for a rare one
        ``can_close`` has found. More names are tried than can be refused, so one of them is it.
        """
        owed = self._evaluation.ends.shortest(stack).lstrip(b",")
        for name in json.loads(b"{" + owed):
            key = json_key(name)[1:]
            # One that comes later in the order of names may owe others before it.
            if key.startswith(begun) and self._may_stand(stack, key[:-1], ()):
                return key[len(begun) :]
        taken = self._stacks.free_keys(stack)
        refused = len(taken) + len(self._order(stack).spelled)
        for text in itertools.islice(self._endings(row), refused + 1):
            if self._may_stand(stack, begun + text[:-1], taken):
                return text
        raise AssertionError(f"no name is left in stack {stack} after {begun!r}")

    def _order(self, stack: int) -> Order:
        frame = self._stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        return self._evaluation.objects.orders[frame.order]

    def _may_stand(self, stack: int, key: bytes, taken: Collection[bytes]) -> bool:
        """Return whether a name may be given here.

        ``key`` is how it is written between its quotes, in the one spelling that names have, and
        ``taken`` are the free names of the object. The row that a free name was found from implies
        that its class is allowed, so only whether the object already has it is checked.
        """
        if key in self._order(stack).spelled:
            name = json.loads(b'"' + key + b'"')
            return self._evaluation.names.name_written(stack, name) is not None
        return key not in taken

    def _endings(self, row: int) -> Iterator[bytes]:
        """Yield the texts from inside a name to the end of its closing quote, shortest first.

        Endless where names are: callers take as many as they need. All of them are spelled by the
        rows from ``row`` on, including those of the schema.
        """
        # The order: bytes in all, minus those so far, a number for ties. Then the row and the text.
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
