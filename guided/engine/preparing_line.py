"""The requests whose constraints are being compiled, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from guided.engine.preparation import Preparation
from guided.engine.sliced import Sliced
from guided.spec import Constraint

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["PreparingLine"]


class PreparingLine:
    """They take turns by slices, so that what takes long holds up nothing that is soon done."""

    def __init__(self) -> None:
        self._line: list[Preparation] = []

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Preparation]:
        return iter(tuple(self._line))

    def __contains__(self, request_id: object) -> bool:
        return any(asked.request_id == request_id for asked in self._line)

    def compiling(self, constraint: Constraint, work: Callable[[], Matcher]) -> Sliced[Matcher]:
        """What compiles the constraint: of whoever wants the same, or the work in slices."""
        for asked in self._line:
            if asked.request.constraint == constraint:
                return asked.matcher
        return Sliced(work)

    def join(self, asked: Preparation) -> None:
        """Wait until the constraint is compiled."""
        self._line.append(asked)

    def go_on(self) -> list[Preparation]:
        """Do a slice of compiling, and let those leave whose constraint is compiled then."""
        if not self._line:
            return []
        compiling = self._line[0].matcher
        is_compiled = compiling.go_on()
        mine = [asked for asked in self._line if asked.matcher is compiling]
        others = [asked for asked in self._line if asked.matcher is not compiling]
        self._line = others if is_compiled else others + mine
        return mine if is_compiled else []

    def leave(self, request_id: str) -> bool:
        """Give a request up, and say whether it was there."""
        for asked in self:
            if asked.request_id == request_id:
                self._line.remove(asked)
                if all(other.matcher is not asked.matcher for other in self._line):
                    asked.matcher.give_up()
                return True
        return False
