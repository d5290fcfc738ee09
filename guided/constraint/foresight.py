"""What of a schema is likely to run into a limit while an answer is written, told before it is.

What takes long is worked out when a text first gets there, and a limit that is hit then closes the
answer on its shortest way. So what a schema leads to is gone into beforehand: objects with all
their members, arrays with one item, each step within the limit that one position of an answer has.
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
"""Steps gone at most: of a schema that leads to more, those that lead to new kinds of values."""
MAX_WORK: Final = 1_000_000
"""Work for all steps together, beyond which none is begun; see ``limited_work``."""
MAX_LIMITS: Final = 10
"""Limits told at most."""
_STEP_WORK: Final = 500
"""Units for a step beside those that are counted in it."""
_VERDICTS: Final = 3
"""Of a value that settles which of several schemas an object has to fit, as many ways to go on."""


def likely_limits(machine: JsonMachine, limits: ConstraintLimits) -> tuple[LikelyLimit, ...]:
    """The limits that are likely to be hit in answers that a machine recognises; it grows by that.

    What MAX_STEPS and MAX_WORK do not get to is not told.
    """
    # More than all steps can spend, so that it is reached by none of them.
    with limited_work(2 * (MAX_WORK + limits.step_work + MAX_STEPS * _STEP_WORK)):
        return tuple(_Foresight(machine, limits).found())


class _Foresight:
    """Goes through the stacks of a machine, nearest first, one for each kind of frame."""

    def __init__(self, machine: JsonMachine, limits: ConstraintLimits) -> None:
        self.machine = machine
        self.limits = limits
        self.work = MAX_WORK
        """What is left of it."""
        self.waiting: deque[tuple[int, str]] = deque([(ROOT, "")])
        """Stacks to go on from, each with its place in an answer, a JSON pointer with ``*``."""
        self.seen: set[Frame] = set()
        """Innermost frames of the stacks that were gone on from."""

    def found(self) -> Iterator[LikelyLimit]:
        """The limits as they are met; a frame that was seen leads to what it led to before.

        To be gone through once, inside of ``limited_work`` for all steps together; each step has
        such a limit of its own, and one that hits it is told and not gone on from.
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
            # Each step has a tank of its own, most of them too small for work to rest in it. So
            # what it spent is spent once more here, where work rests.
            spend(spent + _STEP_WORK)

    def _ahead(self, stack: int, frame: Frame, place: str) -> list[tuple[int, str]]:
        """What may come next in a stack, each with its place in an answer.

        ``frame`` is the innermost of ``stack``. Raises LimitExceededError where a limit is hit.
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
        """The containers that a value may be, and its scalars laid down."""
        self.machine.rows.value(stack)
        types = frozenset().union(*map(self.machine.evaluation.restriction.types, frame.asks))
        opening = {JsonType.OBJECT: OPEN_OBJECT, JsonType.ARRAY: OPEN_ARRAY}
        labels = [label for kind, label in opening.items() if kind in types]
        return [each for label in labels for each in self._behind(stack, label, place)]

    def _past(self, stack: int, frame: Pending, place: str) -> list[tuple[int, str]]:
        """What is after a value: in an array, all items are taken to be like the first."""
        if stack == ROOT or not isinstance(frame.frame, ObjectFrame):
            return []
        around = place[: place.rindex("/")]
        verdicts = self.machine.evaluation.awaited.accepted(stack)[:_VERDICTS]
        numbers = [self.machine.labels.number(Done(truth)) for truth in verdicts]
        return [each for label in numbers for each in self._behind(stack, label, around)]

    def _behind(self, stack: int, label: int, place: str) -> list[tuple[int, str]]:
        """The stack after an exit action, with its place; none where it must not be taken."""
        resolved = self.machine.exits.resolve(stack, label)
        return [] if resolved is None else [(resolved[0], place)]
