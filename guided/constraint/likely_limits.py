"""Finds the limits that answers of a schema are likely to hit, before there is an answer.

Expensive parts of a schema are computed when a text first reaches them. If a limit is hit then, the
answer is closed by its shortest completion. So everything reachable is visited beforehand: objects
with all their members and arrays with one item, each step within the limit that one position of an
answer has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

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
from guided.json_schema.machine.stacks import ROOT, ArrayFrame, AwaitedValue, Frame, ObjectFrame
from guided.json_schema.reader.text import child_pointer
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work, spend, units_left
from guided.spec import LikelyLimit

__all__ = ["likely_limits"]

MAX_STEPS: Final = 3_000
"""The most steps; only those to new kinds of values count."""
MAX_WORK: Final = 1_000_000
"""The work for all steps together; no step starts after it is spent. See ``limited_work``."""
MAX_LIMITS: Final = 10
"""The most limits that are reported."""
_STEP_WORK: Final = 500
"""Units of work for a step, besides those that are counted in it."""
_MAX_OUTCOMES: Final = 3
"""The most outcomes followed if a value determines which schemas an object must fit."""


def likely_limits(machine: JsonMachine, limits: ConstraintLimits) -> tuple[LikelyLimit, ...]:
    """Return the limits that answers of a machine are likely to hit; the machine grows by this.

    The search ends after MAX_STEPS steps, MAX_WORK units of work or MAX_LIMITS limits.
    """
    # Never hit, as this is the most that all steps can spend; it is there so that work can pause.
    with limited_work(MAX_WORK + limits.step_work + MAX_STEPS * _STEP_WORK):
        return tuple(_LimitSearch(machine, limits).find_limits())


class _Place(NamedTuple):
    """A place in an answer, which is written out only where it is reported.

    A place of a long name has very many others inside it.
    """

    around: _Place | None
    name: str

    @property
    def pointer(self) -> str:
        """The place as ``LikelyLimit.place`` writes it."""
        names, place = [self.name], self.around
        while place is not None:
            names.append(place.name)
            place = place.around
        return child_pointer("", *reversed(names))


class _LimitSearch:
    """Visits the stacks of a machine breadth first, one for each innermost frame."""

    def __init__(self, machine: JsonMachine, limits: ConstraintLimits) -> None:
        self.machine = machine
        self.limits = limits
        self.work = MAX_WORK
        """Units of work that are left."""
        self.worklist: deque[tuple[int, _Place | None]] = deque([(ROOT, None)])
        """Stacks still to visit, each with its place in an answer, if that is not the whole."""
        self.seen: set[Frame] = set()
        """Innermost frames of the visited stacks."""

    def find_limits(self) -> Iterator[LikelyLimit]:
        """Yield the limits as they are hit; to be called once.

        The caller limits the work for all steps; each step also has a limit of its own, and one
        that hits it is reported and not continued. A frame that was visited before is skipped,
        since it leads to the same frames again.
        """
        steps, num_reported = 0, 0
        while self.worklist and steps < MAX_STEPS and num_reported < MAX_LIMITS and self.work > 0:
            stack, place = self.worklist.popleft()
            frame = self.machine.stacks.frames[stack]
            if frame in self.seen:
                continue
            self.seen.add(frame)
            steps += 1
            with limited_work(self.limits.step_work, "going on from one position"):
                try:
                    self.machine.parts.check_room()
                    self.worklist += self._next_stacks(stack, frame, place)
                except LimitExceededError as error:
                    num_reported += 1
                    yield LikelyLimit("" if place is None else place.pointer, str(error))
                # Below zero if the last spending went past the limit; what the caller's limit has
                # for each step is no more than ``step_work``.
                spent = self.limits.step_work - max(0, units_left() or 0)
            self.work -= spent
            # Each step has its own work budget, usually too small for work to pause in it. So the
            # units it spent are spent again here, where work can pause.
            spend(spent + _STEP_WORK)

    def _next_stacks(
        self, stack: int, frame: Frame, place: _Place | None
    ) -> list[tuple[int, _Place | None]]:
        """Return the stacks that may come next, each with its place in an answer.

        ``frame`` is the innermost frame of ``stack``. Raises LimitExceededError if a limit is hit.
        """
        machine, exit_actions = self.machine, self.machine.exit_actions
        if isinstance(frame, ArrayFrame):
            return self._after_action(stack, ITEM, _Place(place, "*"))
        if isinstance(frame, ObjectFrame):
            names, classes = machine.evaluation.names.candidates(stack)
            ahead = [(exit_actions.action_of_key(name), _Place(place, name)) for name in names]
            ahead += [
                (exit_actions.action_of(KeyClass(class_id)), _Place(place, "*"))
                for class_id in classes
            ]
            return [
                each for action, inner in ahead for each in self._after_action(stack, action, inner)
            ]
        return self._open_containers(stack, frame, place) + self._after_value(stack, frame, place)

    def _open_containers(
        self, stack: int, frame: AwaitedValue, place: _Place | None
    ) -> list[tuple[int, _Place | None]]:
        """Build the scalars that a value may be, and return the stacks of its containers."""
        self.machine.rows.before_value(stack)
        types = frozenset().union(*map(self.machine.evaluation.restriction.types, frame.formulas))
        opening = {JsonType.OBJECT: OPEN_OBJECT, JsonType.ARRAY: OPEN_ARRAY}
        actions = [action for kind, action in opening.items() if kind in types]
        return [each for action in actions for each in self._after_action(stack, action, place)]

    def _after_value(
        self, stack: int, frame: AwaitedValue, place: _Place | None
    ) -> list[tuple[int, _Place | None]]:
        """Return the stacks after a value; none in arrays, whose items are taken to be alike."""
        if stack == ROOT or not isinstance(frame.frame, ObjectFrame):
            return []
        around = None if place is None else place.around
        vectors = self.machine.evaluation.value_stacks.accepted_vectors(stack)[:_MAX_OUTCOMES]
        actions = [self.machine.exit_actions.action_of(Done(vector)) for vector in vectors]
        return [each for action in actions for each in self._after_action(stack, action, around)]

    def _after_action(
        self, stack: int, action: int, place: _Place | None
    ) -> list[tuple[int, _Place | None]]:
        """Return the stack after an exit action and its place; nothing if it is refused."""
        resolved = self.machine.exits.resolve(stack, action)
        return [] if resolved is None else [(resolved[0], place)]
