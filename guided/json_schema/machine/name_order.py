"""The names that a schema spells out for an object, and which of them were passed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["NameOrder"]


@dataclass(frozen=True, slots=True)
class NameOrder:
    """The names that the schema spells out for an object, in its order.

    ``passed`` says in all methods which of them were written or skipped: it is the index of the
    last one, as names before it are passed too, or if any order is allowed, a bit mask of all.
    """

    names: tuple[str, ...]
    index: dict[str, int]
    """The index of each name in ``names``."""
    encoded: frozenset[bytes]
    """The names as JSON spells them, without the quotes."""
    any_order: bool

    @property
    def none_passed(self) -> int:
        """The ``passed`` of an object without members."""
        return 0 if self.any_order else -1

    def is_passed(self, passed: int, index: int) -> bool:
        """Return whether the name at an index was written, or was skipped."""
        return bool(passed >> index & 1) if self.any_order else index <= passed

    def is_before_last(self, passed: int, index: int) -> bool:
        """Return whether the name at an index comes before the last one written.

        ``False`` if any order is allowed, where writing a name skips no other.
        """
        return not self.any_order and index < passed

    def indices_ahead(self, passed: int, last: int | None = None) -> Iterator[int]:
        """Yield the indices of the names that are neither written nor skipped, ascending.

        They end with ``last`` unless that is ``None``. Whether a name is allowed and can be spelled
        is not checked.
        """
        count = len(self.names) if last is None else last + 1
        if self.any_order:
            for index in range(count):
                if not passed >> index & 1:
                    yield index
        else:
            yield from range(passed + 1, count)

    def first_ahead(self, passed: int, indices: tuple[int, ...]) -> int | None:
        """Return the first of some indices, ascending, that is not passed; ``None`` if all are."""
        if self.any_order:
            return next((index for index in indices if not self.is_passed(passed, index)), None)
        num_passed = bisect_right(indices, passed)
        return indices[num_passed] if num_passed < len(indices) else None

    def pass_name(self, passed: int, index: int) -> int:
        """Return what is passed after the name at an index."""
        return passed | 1 << index if self.any_order else index

    def pass_all(self, passed: int) -> int:
        """Return what is passed after an additional name.

        In the order of the schema, additional names come after all that are spelled out, so none
        of these can come any more.
        """
        return passed if self.any_order else len(self.names)
