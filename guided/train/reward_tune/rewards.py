"""How good an answer is: terms between 0 and 1 over (task, text), and their weighted sum.

    parses     1 if the compiled constraint accepts the whole text
    closeness  how far it follows the constraint; a share below 1 for texts that do not parse
    right      the share of fields that are those of the expected answer
    length     a penalty: the share of the text beyond twice the length of the expected answer
    layout     a penalty: the share of a JSON text that is white space and needless spelling

    reward = the weighted sum of the first three − the weighted sum of the penalties

JSON is judged as a parser and a validator would, with any white space, order of members and
spelling, but by guided's own recogniser; a text made under the constraint always parses.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

from cachetools import LRUCache

from guided.constraint.machine import machine_of
from guided.errors import LimitExceededError, RequestError
from guided.machine.recognizer import Recognizer, State
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work
from guided.spec import JsonOptions, JsonSchema, Structure
from guided.train.reward_tune.tasks import Task, compact

__all__ = ["TERMS", "Judge", "Scores", "Weights"]

TERMS: Final = ("parses", "closeness", "right", "length", "layout")
"""In the order in which they are shown; the last two are penalties."""

_LENIENT: Final = JsonOptions(whitespace="free", key_order="any", spelling="any")
_WHITE_SPACE: Final = " \t\r\n"
"""What JSON may have around it."""
_MACHINES: Final = 64
_FULL_ENOUGH: Final = 0.25
"""A recogniser only grows; at this share of its limits it is replaced."""
_GENEROUS: Final = 2
"""The multiple of the expected answer's length that an answer may have without a penalty."""

_Place: TypeAlias = tuple[str | int, ...]
"""Names and indices that lead from the root of a JSON value to a part of it."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of a full point of each term; none below 0, so that the reward is bounded."""

    parses: float = 1.0
    closeness: float = 0.5
    right: float = 1.0
    length: float = 0.2
    layout: float = 0.1

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not (math.isfinite(value) and value >= 0):
                raise RequestError(f"the weight {each.name} {value!r} is below 0 or no number")

    @property
    def lowest(self) -> float:
        """No reward is below this."""
        return -(self.length + self.layout)

    @property
    def highest(self) -> float:
        """No reward is above this."""
        return self.parses + self.closeness + self.right

    def signed(self) -> dict[str, float]:
        """The factor of each term's points, below 0 for penalties."""
        return {
            "parses": self.parses,
            "closeness": self.closeness,
            "right": self.right,
            "length": -self.length,
            "layout": -self.layout,
        }


@dataclass(frozen=True, slots=True)
class Scores:
    """The terms of one answer, each from 0 to 1."""

    parses: float
    closeness: float
    right: float | None
    """``None`` if no answer is expected."""
    length: float
    layout: float

    def reward(self, weights: Weights) -> float:
        """The weighted sum; a term that is ``None`` adds nothing."""
        signed = weights.signed()
        return sum(signed[name] * (getattr(self, name) or 0.0) for name in TERMS)


class Judge:
    """Scores answers; compiled constraints are kept, a bounded number of them."""

    def __init__(self) -> None:
        self._limits = ConstraintLimits()
        self._machines: LRUCache[str, Recognizer] = LRUCache(_MACHINES)

    def check(self, task: Task) -> None:
        """Raise an error if a task cannot be scored.

        ``ConstraintError`` for a constraint that cannot be enforced, ``RequestError`` for one that
        does not accept the expected answer.
        """
        machine = self._machine(task.constraint)
        self._machine(_lenient(task.constraint))
        if task.expected is None:
            return
        legal, state = _legal_prefix(machine, task.expected)
        if legal < len(task.expected) or not machine.is_accepting(state):
            raise RequestError(
                f"the expected answer of task {task.name!r} leaves its constraint at character "
                f"{legal + 1}: {task.expected!r}",
                field="expected",
                hint="write members in the order of the schema, or correct one of the two",
            )

    def scores(self, task: Task, text: str) -> Scores:
        """Return all terms of an answer to a task."""
        if not task.is_json:
            parses, closeness = self._form(task.constraint, text)
            right = None if task.expected is None else float(text == task.expected)
            return Scores(parses, closeness, right, _excess(text, task.expected), layout=0.0)
        parses, closeness = self._form(_lenient(task.constraint), text.strip(_WHITE_SPACE))
        found = _read(text)
        right = None
        if task.expected is not None:
            right = 0.0 if found is None else _share(_fields(task.expected_value), found.fields)
        # Text with repeated members or rounded numbers may be shorter than the value that is read.
        layout = 0.0 if found is None else max(0.0, 1 - found.least / len(text))
        return Scores(parses, closeness, right, _excess(text, task.expected), layout)

    def _form(self, constraint: Structure, text: str) -> tuple[float, float]:
        """Return ``parses`` and ``closeness``.

        Closeness is the longest legal beginning in characters, relative to the length of the text
        or, if that is longer, of the shortest legal text with that beginning. So an unfinished text
        is measured by what it lacks, and one with something after its end by what is too much.
        """
        machine = self._machine(constraint)
        legal, state = _legal_prefix(machine, text)
        if legal == len(text) and machine.is_accepting(state):
            return 1.0, 1.0
        return 0.0, legal / max(len(text), legal + _missing(machine, state))

    def _machine(self, constraint: Structure) -> Recognizer:
        key = constraint.digest()
        machine = self._machines.get(key)
        if machine is None or machine.parts.fullness > _FULL_ENOUGH:
            with limited_work(self._limits.compile_work):
                machine = machine_of(constraint, limits=self._limits.recognizer)
                machine.parts.check_room()
            self._machines[key] = machine
        return machine


def _lenient(constraint: Structure) -> Structure:
    return (
        replace(constraint, options=_LENIENT) if isinstance(constraint, JsonSchema) else constraint
    )


def _legal_prefix(machine: Recognizer, text: str) -> tuple[int, State]:
    """Return the length of the longest beginning that may still become legal, and its state."""
    state = machine.start
    for index, character in enumerate(text):
        try:
            following = machine.advance(state, character.encode(errors="surrogatepass"))
        except LimitExceededError:
            # Too much for the recogniser, which would have closed the answer here.
            following = None
        if following is None:
            return index, state
        state = following
    return len(text), state


def _missing(machine: Recognizer, state: State) -> int:
    """Return the least number of characters that have to follow, 0 if the text may end."""
    try:
        return len(machine.shortest_completion(state).decode(errors="replace"))
    except LimitExceededError:
        return 1  # more than that, but how many is not known


@dataclass(frozen=True, slots=True)
class _Found:
    """The JSON value of a text."""

    fields: dict[_Place, str]
    least: int
    """Characters of the same without white space."""


def _read(text: str) -> _Found | None:
    """Read a text as JSON; ``None`` if it is none or nested too deeply."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        return _Found(_fields(value), len(compact(value)))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _share(wanted: dict[_Place, str], given: dict[_Place, str]) -> float:
    """Return the share of equal fields, of those that either has; 1 if both are the same."""
    equal = sum(given.get(place) == value for place, value in wanted.items())
    return equal / len(wanted.keys() | given.keys())


def _fields(value: Any, place: _Place = ()) -> dict[_Place, str]:
    """Return the scalars, empty objects and empty lists of a value, as JSON, by their places.

    As JSON, true is not 1, but 1.0 is.
    """
    inner: list[tuple[str | int, Any]]
    if isinstance(value, dict) and value:
        inner = list(value.items())
    elif isinstance(value, list) and value:
        inner = list(enumerate(value))
    else:
        return {place: compact(value)}
    found: dict[_Place, str] = {}
    for name, member in inner:
        found |= _fields(member, (*place, name))
    return found


def _excess(text: str, expected: str | None) -> float:
    if expected is None or not text:
        return 0.0
    return max(0, len(text) - _GENEROUS * len(expected)) / len(text)
