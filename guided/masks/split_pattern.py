"""Patterns by which tokenizers split texts into pieces, read as programs of small steps.

The patterns are Oniguruma's. Supported is what tokenizers use of its syntax and an automaton can
do: characters, classes, groups, alternatives, greedy repetition, and looking at the one character
that follows. What a class holds is left to Oniguruma (see ``CharacterTest``): only where it ends
has to be known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "FOLLOWED",
    "FORK",
    "MATCH",
    "NOT_FOLLOWED",
    "READ",
    "CharacterTest",
    "Program",
    "Step",
    "UnknownPatternError",
    "program_of",
]

CharacterTest: TypeAlias = Callable[[str], bool]
"""Whether a character is in a class."""

READ: Final = 0
"""Read a character of the class ``first``."""
FORK: Final = 1
"""Continue at ``first``, and if that fails, at ``second``; a jump if both are the same. They
are numbers of steps, so they change when steps are moved (``_move_targets``)."""
FOLLOWED: Final = 2
"""Continue if the next character is in the class ``first``."""
NOT_FOLLOWED: Final = 3
"""Continue if the next character is not in the class ``first``, or there is none."""
MATCH: Final = 4

_MOST_STEPS: Final = 2_000
_MOST_GROUPS: Final = 100
"""Groups nested in each other."""
_ESCAPED_CLASSES: Final = "sSdDwWpPhH"
_ESCAPED_CHARACTERS: Final = "rntfvae"
_FOLDED_PAIRS: Final = ("ss", "st", "ff", "fi", "fl")
"""Two letters that ignoring case equates with one character, such as ``ss`` with ``ß``."""


class Step(NamedTuple):
    """One step of a program."""

    kind: int
    first: int = 0
    second: int = 0


class Program(NamedTuple):
    """Steps from the first on, and the classes that they refer to."""

    steps: tuple[Step, ...]
    classes: tuple[str, ...]
    """Each is a pattern of its own that matches one character."""


class UnknownPatternError(Exception):
    """A pattern with something that is not supported here."""


def program_of(pattern: str) -> Program:
    """Return the program of a pattern; raises UnknownPatternError.

    Reading a pattern differently from the tokenizer's matcher makes wrong forced runs; refusing one
    only means that none are made. So what is in doubt is refused.
    """
    reader = _Reader(pattern)
    reader.alternatives(ignores_case=False)
    if reader.at < len(pattern):
        raise UnknownPatternError(pattern)
    reader.steps.append(Step(MATCH))
    if _may_be_empty(reader.steps):
        # Where the next match begins would be up to the matcher.
        raise UnknownPatternError(pattern)
    return Program(tuple(reader.steps), tuple(reader.classes))


def _may_be_empty(steps: Sequence[Step]) -> bool:
    """Return whether a match without a character is possible if every look-ahead holds."""
    seen, worklist = set[int](), [0]
    while worklist:
        at = worklist.pop()
        if at in seen:
            continue
        seen.add(at)
        step = steps[at]
        if step.kind == MATCH:
            return True
        if step.kind == FORK:
            worklist += (step.first, step.second)
        elif step.kind != READ:
            worklist.append(at + 1)
    return False


class _Reader:
    """Reads a pattern from left to right and writes its steps.

    All methods may raise UnknownPatternError, after which the reader is unusable.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.steps: list[Step] = []
        self.classes: dict[str, int] = {}
        """The number of each class by its text, in the order of the numbers."""
        self.depth = 0
        """The number of open groups."""
        self._last = ""
        """The text of the character or class read last, if case is ignored for it and the next one
        follows at once; brackets of groups do not count."""

    def alternatives(self, *, ignores_case: bool) -> None:
        """``a|b``: fork to what stands before the bar; where that fails, to what comes after it.

        A matcher tries the alternatives in this order, and a fork's ``first`` is always tried
        first: which match is taken depends on it.
        """
        begin = len(self.steps)
        ends = []
        self._sequence(ignores_case=ignores_case)
        while self._accept("|"):
            self._last = ""
            self._make_room(begin)
            ends.append(len(self.steps))
            self.steps.append(Step(FORK))  # to the end, set below
            self.steps[begin] = Step(FORK, begin + 1, len(self.steps))
            begin = len(self.steps)
            self._sequence(ignores_case=ignores_case)
        for end in ends:
            self.steps[end] = Step(FORK, len(self.steps), len(self.steps))

    def _sequence(self, *, ignores_case: bool) -> None:
        """Atoms with their repeats up to a bar or a closing bracket."""
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            begin = len(self.steps)
            self._atom(ignores_case=ignores_case)
            self._repeat(begin)

    def _atom(self, *, ignores_case: bool) -> None:
        """Read one character, a group, or a look-ahead for one character, and append its steps.

        Any other group that begins with a question mark is refused.
        """
        for opening, kind in (("(?!", NOT_FOLLOWED), ("(?=", FOLLOWED)):
            if self._accept(opening):
                self.steps.append(Step(kind, self._class(ignores_case=ignores_case)))
                self._last = ""
                self._expect_bracket()
                return
        for opening in ("(?i:", "(?:", "("):
            if self._accept(opening):
                if opening == "(" and self._accept("?"):
                    raise UnknownPatternError(self.pattern)
                self.depth += 1
                if self.depth > _MOST_GROUPS:
                    raise UnknownPatternError(self.pattern)
                self.alternatives(ignores_case=ignores_case or opening == "(?i:")
                self.depth -= 1
                self._expect_bracket()
                return
        at = self.at
        self.steps.append(Step(READ, self._class(ignores_case=ignores_case)))
        self._check_folding(self.pattern[at : self.at].lower() if ignores_case else "")

    def _check_folding(self, character: str) -> None:
        """Refuse two letters that fold to one character.

        The matcher would take that character for both, and steps read one character each.
        """
        if self._last + character in _FOLDED_PAIRS:
            raise UnknownPatternError(self.pattern)
        self._last = character

    def _class(self, *, ignores_case: bool) -> int:
        """Read what matches one character; returns the number of its class.

        The class is kept as it is written; the tokenizers' own matcher judges characters by it.
        """
        begin = self.at
        character = self._take()
        if character == "[":
            self._skip_brackets()
        elif character == "\\":
            self._skip_escape()
        elif character in "(){}*+?|^$.":
            raise UnknownPatternError(self.pattern)
        text = self.pattern[begin : self.at]
        if ignores_case:
            # One character beyond ASCII may match two letters, such as ``ß`` the text ``ss``.
            if not all(sign.isascii() for sign in text):
                raise UnknownPatternError(self.pattern)
            text = f"(?i:{text})"
        return self.classes.setdefault(text, len(self.classes))

    def _skip_brackets(self) -> None:
        """Skip to the end of a class in brackets, whose first bracket was read."""
        self._accept("^")
        if self._accept("]") or self.pattern.startswith("[:", self.at):
            raise UnknownPatternError(self.pattern)
        while (character := self._take()) != "]":
            if character == "[":
                self._skip_brackets()
            elif character == "\\":
                self._take()

    def _skip_escape(self) -> None:
        """Skip to the end of an escape, whose backslash was read; raises for an unknown one."""
        character = self._take()
        if character in "pP" and self._accept("{"):
            while self._take() != "}":
                pass
        elif character.isalnum() and character not in _ESCAPED_CLASSES + _ESCAPED_CHARACTERS:
            raise UnknownPatternError(self.pattern)

    def _repeat(self, begin: int) -> None:
        """Repeat the steps from ``begin`` on as often as the quantifier after them says."""
        if self._accept("?"):
            low, high = 0, 1
        elif self._accept("*"):
            low, high = 0, None
        elif self._accept("+"):
            low, high = 1, None
        elif self._accept("{"):
            low, high = self._bounds()
        else:
            return
        if self.pattern[self.at : self.at + 1] in ("?", "+", "*", "{"):
            raise UnknownPatternError(self.pattern)  # not greedy, or never going back
        body = self.steps[begin:]
        del self.steps[begin:]
        for _ in range(low):
            self._append(body, begin)
        # x*: try the body, or leave (+2: past the body and the fork that leads back).
        if high is None:
            start = len(self.steps)
            self.steps.append(Step(FORK, start + 1, start + len(body) + 2))
            self._append(body, begin)
            self.steps.append(Step(FORK, start, start))
            return
        # x{0,2}: each round that may be left out begins with a fork that leads to the very end.
        end = len(self.steps) + (high - low) * (len(body) + 1)
        for _ in range(high - low):
            self.steps.append(Step(FORK, len(self.steps) + 1, end))
            self._append(body, begin)

    def _bounds(self) -> tuple[int, int | None]:
        """Return the bounds of a repeat after its brace; ``None`` for no upper one.

        ``{,n}``, which engines read differently, is refused, and so are digits of other scripts. A
        bound with as many digits as ``_MOST_STEPS`` or more is refused before it is converted to a
        number.
        """
        begin = self.at
        while self._take() != "}":
            pass
        low, comma, high = self.pattern[begin : self.at - 1].partition(",")
        for each in (low, high or "0"):
            if not (each.isascii() and each.isdecimal() and len(each) < len(str(_MOST_STEPS))):
                raise UnknownPatternError(self.pattern)
        if high and int(high) < int(low):
            # Engines differ in what bounds in this order mean.
            raise UnknownPatternError(self.pattern)
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    def _append(self, body: list[Step], begin: int) -> None:
        """Append steps that were written at ``begin``.

        ``body`` is not changed: it is appended once for each round. Its forks still hold the
        numbers of where it was written, so they are moved.
        """
        offset = len(self.steps) - begin
        if len(self.steps) + len(body) > _MOST_STEPS:
            raise UnknownPatternError(self.pattern)
        self.steps += [_move_targets(step, offset) for step in body]

    def _make_room(self, begin: int) -> None:
        """Make room for one step before those from ``begin`` on.

        The new step only holds the place: the caller sets it. A fork before ``begin`` that leads to
        it then leads to the new one; none may lead further.
        """
        moved = [_move_targets(step, 1) for step in self.steps[begin:]]
        self.steps[begin:] = [Step(FORK), *moved]

    def _take(self) -> str:
        if self.at >= len(self.pattern):
            raise UnknownPatternError(self.pattern)
        self.at += 1
        return self.pattern[self.at - 1]

    def _accept(self, text: str) -> bool:
        """Return whether a text stands here; if so, it is consumed."""
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _expect_bracket(self) -> None:
        if not self._accept(")"):
            raise UnknownPatternError(self.pattern)


def _move_targets(step: Step, by: int) -> Step:
    if step.kind != FORK:
        return step
    return Step(FORK, step.first + by, step.second + by)
