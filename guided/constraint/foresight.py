"""Report beforehand which limits the answers of a schema are likely to hit.

Expensive parts of a schema are computed when a text first reaches them. If a limit is hit then, the
answer is closed in the shortest way. So everything that a schema leads to is visited beforehand:
objects with all their members and arrays with one item, each step within the limit that one
position of an answer has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.machine.exit_actions import (
    ITEM,
    OPEN_ARRAY,
    OPEN_OBJECT,
    Done,
    KeyClass,
)
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.machine.stacks import ROOT, ArrayFrame, Frame, ObjectFrame, Pending
from guided.json_schema.reader.text import child
from guided.masks.limits import ConstraintLimits
from guided.runtime.fuel import limited_work, spend, units_left
from guided.spec import LikelyLimit

__all__ = ["likely_limits"]

MAX_STEPS: Final = 3_000
"""How many steps are taken, at most; only those to new kinds of values count."""
MAX_WORK: Final = 1_000_000
"""Work for all steps together; no step begins after it is spent. See ``limited_work``."""
MAX_LIMITS: Final = 10
"""At most this many limits are reported."""
_STEP_WORK: Final = 500
"""Units for a step, besides those that are counted in it."""
_VERDICTS: Final = 3
"""If a value settles which schemas an object must fit, follow at most this many outcomes."""


def likely_limits(machine: JsonMachine, limits: ConstraintLimits) -> tuple[LikelyLimit, ...]:
    """Return the limits that answers of a machine are likely to hit; the machine grows by this.

    What lies beyond MAX_STEPS and MAX_WORK is not reported.
    """
    # More than all steps can spend together, so this limit is never hit.
    with limited_work(2 * (MAX_WORK + limits.step_work + MAX_STEPS * _STEP_WORK)):
        return tuple(_Foresight(machine, limits).found())


class _Foresight:
    """Visits the stacks of a machine, nearest first, one for each kind of frame."""

    def __init__(self, machine: JsonMachine, limits: ConstraintLimits) -> None:
        self.machine = machine
        self.limits = limits
        self.work = MAX_WORK
        """Units that are left of it."""
        self.waiting: deque[tuple[int, str]] = deque([(ROOT, "")])
        """Stacks still to visit, each with its place in an answer: a JSON pointer with ``*``."""
        self.seen: set[Frame] = set()
        """Innermost frames of the stacks visited."""

    def found(self) -> Iterator[LikelyLimit]:
        """Yield the limits as they are hit; a frame seen before leads to what it led to before.

        Use it only once, inside ``limited_work`` for all steps together. Each step also has such a
        limit of its own; a step that hits it is reported and not continued.
        """
        steps, told = 0, 0
        while self.waiting and steps < MAX_STEPS and told < MAX_LIMITS and self.work > 0:
            stack, place = self.waiting.popleft()
            frame = self.machine.stacks.frames[stack]
            if frame in self.seen:
                continue
            self.seen.add(frame)
            steps += 1
            with limited_work(self.limits.step_work, "going on from one position"):
                try:
                    self.machine.parts.check_room()
                    self.waiting += self._ahead(stack, frame, place)
                except LimitExceededError as error:
                    told += 1
                    yield LikelyLimit(place, str(error))
                spent = self.limits.step_work - (units_left() or 0)
            self.work -= spent
            # Each step has its own tank, usually too small for work to pause in it. So the units it
            # spent are spent again here, where work can pause.
            spend(spent + _STEP_WORK)

    def _ahead(self, stack: int, frame: Frame, place: str) -> list[tuple[int, str]]:
        """Return what may come next in a stack, each with its place in an answer.

        ``frame`` is the innermost frame of ``stack``. Raises LimitExceededError if a limit is hit.
        """
        machine, labels = self.machine, self.machine.labels
        if isinstance(frame, ArrayFrame):
            return self._behind(stack, ITEM, child(place, "*"))
        if isinstance(frame, ObjectFrame):
            names, classes = machine.evaluation.names.candidates(stack)
            ahead = [(labels.of_key(name), child(place, name)) for name in names]
            ahead += [(labels.number(KeyClass(number)), child(place, "*")) for number in classes]
            return [each for label, inner in ahead for each in self._behind(stack, label, inner)]
        return self._inside(stack, frame, place) + self._past(stack, frame, place)

    def _inside(self, stack: int, frame: Pending, place: str) -> list[tuple[int, str]]:
        """Build the scalars that a value may be, and return the containers that it may be."""
        self.machine.rows.value(stack)
        types = frozenset().union(*map(self.machine.evaluation.restriction.types, frame.asks))
        opening = {JsonType.OBJECT: OPEN_OBJECT, JsonType.ARRAY: OPEN_ARRAY}
        labels = [label for kind, label in opening.items() if kind in types]
        return [each for label in labels for each in self._behind(stack, label, place)]

    def _past(self, stack: int, frame: Pending, place: str) -> list[tuple[int, str]]:
        """Return what follows a value. In an array, all items are taken to be like the first."""
        if stack == ROOT or not isinstance(frame.frame, ObjectFrame):
            return []
        around = place[: place.rindex("/")]
        verdicts = self.machine.evaluation.awaited.accepted(stack)[:_VERDICTS]
        numbers = [self.machine.labels.number(Done(truth)) for truth in verdicts]
        return [each for label in numbers for each in self._behind(stack, label, around)]

    def _behind(self, stack: int, label: int, place: str) -> list[tuple[int, str]]:
        """Return the stack after an exit action, with its place; none if it must not be taken."""
        resolved = self.machine.exits.resolve(stack, label)
        return [] if resolved is None else [(resolved[0], place)]
