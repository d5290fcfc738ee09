"""Reads a JSON document that arrives in pieces, and finds the values in it that are complete.

``GrowingJson`` finds where values end; ``json`` reads the strings and numbers, so that every value
is the same as in the whole document::

    {"a": [1, "x   →   /a/0 is 1; /a grows
    \\u00e9"], "b  →   /a/1 is "xé", /a is [1, "xé"]
    ": 2}          →   /b is 2, the document is {"a": [1, "xé"], "b": 2}
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from guided.errors import InternalServiceError, LimitExceededError

__all__ = ["GrowingJson", "KeptParts", "Node", "ValueEvent"]


@dataclass(frozen=True, slots=True)
class ValueEvent:
    """A value of the answer, reported when it is complete."""

    pointer: str
    """Its place, as a JSON pointer (RFC 6901): ``/steps/0/title``, or empty for the root."""
    value: Any
    """The value as ``json`` reads it."""


@dataclass(slots=True, eq=False)
class Node:
    """A value that has begun; it is complete if it has an end."""

    start: int
    end: int | None = None
    value: Any = None
    """Set once it is complete."""
    inside: dict[str, Node] | list[Node] | None = None
    """The parts of an object or array that has not ended, by name or in order."""
    typed: Any = None
    """What a reader that knows types has made of the complete value."""
    kept: KeptParts | None = None
    """What it has made of the complete parts of an object or array that has not ended."""


@dataclass(slots=True, eq=False)
class KeptParts:
    """The values of the complete parts of an open object or array, made once."""

    num_read: int
    """The number of parts that were read; those without a value are not among the values."""
    values: Any
    """By name or in order."""


class _Due(Enum):
    """What the reader expects next."""

    VALUE = auto()
    ITEM_OR_END = auto()
    NAME_OR_END = auto()
    NAME = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    NOTHING = auto()


_SPACE: Final = re.compile(r"[ \t\n\r]*")
_IN_STRING: Final = re.compile(r'(?:[^"\\]+|\\.)*+', re.DOTALL)
_IN_NUMBER: Final = re.compile(r"[-+.0-9eE]+")
_WHOLE_LETTERS: Final = re.compile(
    r"(?:[^\\]+|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    # The first half of a pair is whole once it is certain what follows it.
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{4}))*+",
    re.DOTALL,
)
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_NUMBER_STARTS: Final = frozenset("-0123456789")


class GrowingJson:
    """The document so far; raises InternalServiceError if it is not JSON.

    Raises LimitExceededError for an integer of more digits than Python reads.
    """

    def __init__(self) -> None:
        self.text = ""
        self.root: Node | None = None
        self._due = _Due.VALUE
        self._at = 0
        """The position of the next or the incomplete token."""
        self._scanned = 0
        """How far the current string was scanned."""
        self._open: list[Node] = []
        """The open objects and arrays, outermost first."""
        self._names: list[str] = []
        """For each open object or array, the last name read in it."""
        self._path: list[str] = []
        """The same as parts of a pointer, ``/name`` or ``/index``. A pointer is joined where a
        value is complete: many values below a long name would take much memory for theirs."""
        self._growing: Node | None = None
        """The string, number or word that has begun and not ended."""
        self._known_text: tuple[Node | None, int, str] = (None, 0, "")
        """The last string that ``growing_text`` was asked for, how far it was read, and its text up
        to there, so that a long string is read once."""

    def feed(self, text: str) -> list[ValueEvent]:
        """Add text; returns the values that it completes, in the order of their ends.

        A number is complete once something follows it.
        """
        # Python extends a text that nothing else refers to where it is, and copies any other.
        grown, self.text = self.text, ""
        grown += text
        self.text = grown
        events: list[ValueEvent] = []
        while self._token(events):
            pass
        return events

    def end(self) -> list[ValueEvent]:
        """End the text; returns the document if it is a number."""
        if self._growing is None or self._open or self._is_at('"tfn'):
            return []
        return [self._read_to(len(self.text), self._growing)]

    def growing_text(self, node: Node) -> str | None:
        """Return the text so far of an incomplete string; ``None`` for anything else.

        The text has whole characters, never half of a surrogate pair.
        """
        if node is not self._growing or not self._is_at('"'):
            return None
        known, at, text = self._known_text
        if known is not node:
            at, text = node.start + 1, ""
        whole = _WHOLE_LETTERS.match(self.text, at)
        assert whole is not None, "a pattern that matches nothing too"
        if whole[0]:
            text += str(self._loads(f'"{whole[0]}"'))
        self._known_text = node, whole.end(), text
        return text

    # Tokens. Each method returns whether it read one; if not, it needs more text.

    def _token(self, events: list[ValueEvent]) -> bool:
        space = _SPACE.match(self.text, self._at)
        assert space is not None, "a pattern that matches nothing too"
        self._at = space.end()
        if self._at == len(self.text):
            return False
        due = self._due
        if self._is_at("]" if due is _Due.ITEM_OR_END else "}" if due is _Due.NAME_OR_END else ""):
            return self._close(events)
        match due:
            case _Due.VALUE | _Due.ITEM_OR_END:
                return self._value(events)
            case _Due.NAME | _Due.NAME_OR_END:
                return self._name()
            case _Due.COLON:
                return self._sign(":", _Due.VALUE)
            case _Due.COMMA_OR_END:
                is_object = isinstance(self._open[-1].inside, dict)
                if self._is_at("}" if is_object else "]"):
                    return self._close(events)
                return self._sign(",", _Due.NAME if is_object else _Due.VALUE)
        raise self._fault("something follows the document")

    def _sign(self, sign: str, due: _Due) -> bool:
        if not self._is_at(sign):
            raise self._fault(f"{sign!r} is due")
        self._at += 1
        self._due = due
        return True

    def _name(self) -> bool:
        if not self._is_at('"'):
            raise self._fault("a name is due")
        end = self._string_end()
        if end is None:
            return False
        self._names[-1] = self._loads(self.text[self._at : end])
        self._at, self._due = end, _Due.COLON
        return True

    def _value(self, events: list[ValueEvent]) -> bool:
        node = self._growing or self._begin()
        if self._is_at("{["):
            is_object = self._is_at("{")
            node.inside = {} if is_object else []
            self._open.append(node)
            self._names.append("")
            self._path.append("")
            self._growing = None
            self._due = _Due.NAME_OR_END if is_object else _Due.ITEM_OR_END
            self._at += 1
            return True
        end = self._scalar_end()
        if end is None:
            return False
        events.append(self._read_to(end, node))
        return True

    def _begin(self) -> Node:
        """Make a node for the value that begins here."""
        if not self._open:
            node = self.root = Node(self._at)
        else:
            parent = self._open[-1]
            if isinstance(parent.inside, dict):
                name = self._names[-1]
                self._path[-1] = "/" + name.replace("~", "~0").replace("/", "~1")
                node = parent.inside[name] = Node(self._at)
            else:
                assert parent.inside is not None, "an open array without items"
                self._path[-1] = f"/{len(parent.inside)}"
                node = Node(self._at)
                parent.inside.append(node)
        self._growing = node
        return node

    def _scalar_end(self) -> int | None:
        if self._is_at('"'):
            return self._string_end()
        first = self.text[self._at]
        if (word := _WORDS.get(first)) is not None:
            there = self.text[self._at : self._at + len(word)]
            if not word.startswith(there):
                raise self._fault(f"{word} is due")
            return self._at + len(word) if there == word else None
        number = _IN_NUMBER.match(self.text, self._at)
        if first not in _NUMBER_STARTS or number is None:
            raise self._fault("a value is due")
        return number.end() if number.end() < len(self.text) else None

    def _string_end(self) -> int | None:
        inside = _IN_STRING.match(self.text, max(self._scanned, self._at + 1))
        assert inside is not None, "a pattern that matches nothing too"
        self._scanned = inside.end()
        return self._scanned + 1 if self.text.startswith('"', self._scanned) else None

    def _close(self, events: list[ValueEvent]) -> bool:
        node = self._open.pop()
        self._names.pop()
        self._path.pop()
        inside = node.inside
        if isinstance(inside, dict):
            value: Any = {name: one.value for name, one in inside.items()}
        else:
            value = [one.value for one in inside or ()]
        events.append(self._ended(node, self._at + 1, value))
        return True

    def _read_to(self, end: int, node: Node) -> ValueEvent:
        return self._ended(node, end, self._loads(self.text[node.start : end]))

    def _ended(self, node: Node, end: int, value: Any) -> ValueEvent:
        node.end, node.value, node.inside, node.kept = end, value, None, None
        self._growing = None
        self._at = end
        self._due = _Due.COMMA_OR_END if self._open else _Due.NOTHING
        return ValueEvent("".join(self._path), value)

    def _is_at(self, signs: str) -> bool:
        return bool(signs) and self.text[self._at] in signs

    def _loads(self, text: str) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise self._fault(str(error)) from error
        except ValueError as error:  # Python's limit on integers
            limit = sys.get_int_max_str_digits()
            raise LimitExceededError(
                f"the answer has an integer of {len(text.lstrip('-'))} digits, and Python reads up "
                f"to {limit}",
                limit=limit,
                pointer="".join(self._path),
                hint="give it a maximum, or call sys.set_int_max_str_digits",
            ) from error

    def _fault(self, reason: str) -> InternalServiceError:
        return InternalServiceError(
            f"the answer is not JSON from character {self._at} on: {reason}",
            hint="report it, with the request",
        )
