"""Patterns of Python's ``re`` as ``Regular`` values, read by Python's own parser.

A pattern matches the text of one terminal as a whole, and look-around sees only that. Anchors are
allowed only where the pattern matches a whole text. If versions of Python differ, the running one
is followed. What is not regular is refused, and so is what keeps a backtracking matcher from
trying all matches (possessive quantifiers, atomic groups).
"""

from __future__ import annotations

import functools
import re
import sys
from importlib import import_module
from typing import Any, Final, NoReturn

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.regular.codepoints import ANY, EMPTY, CodePoints, is_surrogate, lone_surrogate
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Look,
    Regular,
    Repeat,
    Start,
    contains_end,
    word_boundary,
)
from guided.regular.patterns.character_classes import (
    ascii_class,
    python_case_closure,
    unicode_class,
)
from guided.runtime.work_budget import spend

__all__ = ["parse_python_regex"]

# Private modules of the standard library, which type checkers do not know.
op: Final[Any] = import_module("re._constants")
_parser: Final[Any] = import_module("re._parser")

_MAX_PATTERN_LENGTH: Final = 20_000
_UNSUPPORTED: Final = {
    op.GROUPREF: ("a back reference", r"\\[1-9]|\(\?P=|\(\?\("),
    op.GROUPREF_EXISTS: ("a condition on a group", r"\(\?\("),
    op.GROUPREF_IGNORE: ("a back reference", r"\\[1-9]|\(\?P="),
    op.POSSESSIVE_REPEAT: ("a possessive quantifier", r"[*+?}]\+"),
    op.ATOMIC_GROUP: ("an atomic group", r"\(\?>"),
}
"""By unsupported operation, its name in errors and a pattern of its notation."""
_BEGINNINGS: Final = (op.AT_BEGINNING, op.AT_BEGINNING_STRING)
_ENDS: Final = (op.AT_END, op.AT_END_STRING)
_ANCHORS: Final = r"\^|\$|\\A|\\Z"
"""A pattern of the notation of anchors."""
# As plain numbers: looking up a flag by its name takes longer than the rest of a character.
_IGNORECASE: Final = int(re.IGNORECASE)
_ASCII_ONLY: Final = int(re.ASCII)
_DOTALL: Final = int(re.DOTALL)
_MULTILINE: Final = int(re.MULTILINE)
_UNICODE: Final = int(re.UNICODE)
_KINDS_OF_LETTERS: Final = int(re.ASCII | re.LOCALE | re.UNICODE)
"""Flags of which a group that sets one takes the others back."""
_UNICODE_WRITTEN: Final = re.compile(r"(?:\(\?[a-zA-Z]+\))*?\(\?[a-zA-Z]*u[a-zA-Z]*\)")
_NEWLINE: Final = CodePoints.single("\n")
_START_OF_LINE: Final = Alternate((Start(), Look(Chars(_NEWLINE), ahead=False)))
_END_OF_LINE: Final = Alternate((End(), Look(Chars(_NEWLINE))))
"""``^`` and ``$`` with the flag m."""
_BOUNDARY_IN_EMPTY_TEXT: Final = sys.version_info >= (3, 14)
"""Whether ``\\B`` matches in a text without characters."""


def parse_python_regex(text: str, flags: int = 0, *, anchored: bool = False) -> Regular:
    """Parse a pattern; the expression matches what ``re.fullmatch`` does with these ``flags``.

    Except for ``\\d``, which is 0 to 9 and not a digit of any script, unless the flag u is given or
    written (``(?u)``): whoever lets a model write ``\\d`` means those. Lazy quantifiers are marked
    as such. Anchors are accepted only with ``anchored``, for a pattern that matches a whole text.
    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, the first two with
    the position in the pattern.
    """
    if len(text) > _MAX_PATTERN_LENGTH:
        raise LimitExceededError(
            f"the pattern has {len(text)} characters, more than {_MAX_PATTERN_LENGTH}",
            limit=_MAX_PATTERN_LENGTH,
            field="constraint",
            hint="say it with several rules of a grammar",
        )
    try:
        try:
            parsed = _parser.parse(text, flags)
        except ValueError as excluded:  # of flags that exclude each other
            raise InvalidConstraintError(f"{excluded}, in the pattern", position=0) from excluded
        items = _without_outer_anchors([*parsed]) if anchored else parsed
        # Python's parser sets the flag u wherever a is not.
        told = parsed.state.flags if _tells_unicode(text, flags) else parsed.state.flags & ~_UNICODE
        return _Translator(text, anchored).sequence(items, told)
    except re.error as error:
        raise InvalidConstraintError(
            f"{error.msg} at character {error.pos} of the pattern", position=error.pos
        ) from error
    except (RecursionError, OverflowError) as too_much:
        raise LimitExceededError(
            "the pattern nests too deeply or repeats too often",
            limit=sys.getrecursionlimit(),
            field="constraint",
            hint="write it with fewer groups inside of one another, or with lower bounds",
        ) from too_much


def _without_outer_anchors(items: list[Any]) -> list[Any]:
    """Return the items of a pattern that matches a whole text, without anchors at both ends.

    They hold there in any case, also ``$``, and patterns without look-around are compiled faster.
    """
    begin, end = 0, len(items)
    while begin < end and items[begin][0] is op.AT and items[begin][1] in _BEGINNINGS:
        begin += 1
    while begin < end and items[end - 1][0] is op.AT and items[end - 1][1] in _ENDS:
        end -= 1
    return items[begin:end]


def _tells_unicode(text: str, flags: int) -> bool:
    """Return whether the flag u is given, or written at the beginning of a pattern.

    There it may stand in the second of several groups: compiled patterns come with their flags.
    """
    return bool(flags & _UNICODE) or _UNICODE_WRITTEN.match(text) is not None


class _Translator:
    """Translates Python's parse tree into ours."""

    def __init__(self, text: str, anchored: bool) -> None:
        self.text = text
        self.anchored = anchored

    def sequence(self, items: Any, flags: int) -> Regular:
        parts = [self.term(operation, argument, flags) for operation, argument in items]
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def term(self, operation: Any, argument: Any, flags: int) -> Regular:
        """Translate one node of Python's parse tree; ``flags`` are those that are on there."""
        spend(1)
        if operation in _UNSUPPORTED:
            self.raise_unsupported(*_UNSUPPORTED[operation])
        match operation:
            case op.LITERAL:
                self.check_scalar(argument)
                return _literal_character(argument, flags & (_IGNORECASE | _ASCII_ONLY))
            case op.NOT_LITERAL:
                return Chars(~_apply_ignore_case(_range(argument, argument), flags))
            case op.ANY:
                return Chars(ANY if flags & _DOTALL else ~_NEWLINE)
            case op.IN:
                self.check_class(argument)
                return Chars(_class_members(argument, flags))
            case op.BRANCH:
                return Alternate(tuple(self.sequence(each, flags) for each in argument[1]))
            case op.SUBPATTERN:
                _, added, removed, inner = argument
                if added & _KINDS_OF_LETTERS:
                    flags &= ~_KINDS_OF_LETTERS
                return self.sequence(inner, (flags | added) & ~removed)
            case op.MAX_REPEAT | op.MIN_REPEAT:
                low, high, inner = argument
                most = None if high is op.MAXREPEAT else int(high)
                item = self.sequence(inner, flags)
                return Repeat(item, int(low), most, lazy=operation is op.MIN_REPEAT)
            case op.ASSERT | op.ASSERT_NOT:
                direction, inner = argument
                # Where a match is forbidden, fewer digits would allow more texts.
                kinds = flags if flags & _ASCII_ONLY else flags | _UNICODE
                item, is_negative = self.sequence(inner, kinds), operation is op.ASSERT_NOT
                if direction < 0 and is_negative and contains_end(item):
                    # See guided/regular/lookaround.py.
                    what = "the end of the text inside of a negative look-behind"
                    self.raise_unsupported(what, r"\(\?<!")
                return Look(item, direction > 0, is_negative)
            case op.AT:
                return self.anchor(argument, flags)
            case op.FAILURE:
                return Alternate(())
        self.raise_unsupported(f"the operation {operation}", "")

    def check_class(self, items: Any) -> None:
        """Raise InvalidConstraintError for a class that lists surrogates, unless it is negated."""
        kinds = [operation for operation, _ in items]
        if op.NEGATE not in kinds:
            ranges = [argument for operation, argument in items if operation is op.RANGE]
            ranges += [(each, each) for operation, each in items if operation is op.LITERAL]
            found = lone_surrogate(ranges)
            if found is not None:
                self.check_scalar(found)

    def check_scalar(self, code_point: int) -> None:
        """Raise InvalidConstraintError for a surrogate, which was written as an escape."""
        if is_surrogate(code_point):
            found = re.search(rf"(?i)(?<!\\)(?:\\\\)*(?P<at>\\u(?:0000)?{code_point:x})", self.text)
            raise InvalidConstraintError(
                f"{code_point:#x} is a surrogate, which no text holds alone",
                position=found.start("at") if found else 0,
                hint=r"write the whole character, such as \U0001F600",
            )

    def anchor(self, code: Any, flags: int) -> Regular:
        """Translate a word boundary or an anchor, which is refused unless ``anchored``."""
        if code in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            negative = code is op.AT_NON_BOUNDARY
            word = _category(op.CATEGORY_WORD, flags)
            return word_boundary(word, negative=negative, in_empty_text=_BOUNDARY_IN_EMPTY_TEXT)
        if not self.anchored:
            self.raise_unsupported("an anchor, which looks beyond the terminal,", _ANCHORS)
        if code is op.AT_END_STRING:
            return End()
        if code is op.AT_BEGINNING_STRING:
            return Start()
        if code is op.AT_BEGINNING:
            return _START_OF_LINE if flags & _MULTILINE else Start()
        if flags & _MULTILINE:
            return _END_OF_LINE
        # Python's $ also matches before a last line feed.
        return Alternate((End(), Look(Concat((Chars(_NEWLINE), End())))))

    def raise_unsupported(self, what: str, notation: str) -> NoReturn:
        """Raise UnsupportedFeatureError; the parse tree has no positions, so the text is searched.

        ``notation`` is a pattern of how it is written. Its first match may be elsewhere.
        """
        found = re.search(notation, self.text) if notation else None
        position = found.start() if found else 0
        raise UnsupportedFeatureError(
            f"{what} at character {position} of the pattern is not supported",
            position=position,
            hint="write the pattern without it",
        )


def _range(low: int, high: int) -> CodePoints:
    return CodePoints.from_ranges([(low, high)])


@functools.lru_cache(maxsize=1024)
def _literal_character(code_point: int, flags: int) -> Chars:
    return Chars(_apply_ignore_case(_range(code_point, code_point), flags))


def _apply_ignore_case(chars: CodePoints, flags: int) -> CodePoints:
    """Return the set, with letters of any case if case is ignored, with ``(?a)`` in ASCII only."""
    if not flags & _IGNORECASE:
        return chars
    if flags & _ASCII_ONLY:
        ascii_ = _range(0, 127)
        return chars | (python_case_closure(chars & ascii_) & ascii_)
    return python_case_closure(chars)


def _class_members(items: Any, flags: int) -> CodePoints:
    """Return the set of a class in brackets; case is not ignored in categories such as ``\\w``.

    ``items`` are those of Python's parser: NEGATE, if present, comes first, then LITERAL, RANGE and
    CATEGORY, and there are no others.
    """
    spend(len(items))
    negated = items[0][0] is op.NEGATE
    if negated and not flags & _ASCII_ONLY:
        flags |= _UNICODE
    spelled: list[tuple[int, int]] = []
    classes = EMPTY
    for operation, argument in items:
        match operation:
            case op.LITERAL:
                spelled.append((argument, argument))
            case op.RANGE:
                spelled.append(argument)
            case op.CATEGORY:
                classes |= _category(argument, flags)
    chars = _apply_ignore_case(CodePoints.from_ranges(spelled), flags) | classes
    return ~chars if negated else chars


def _category(category: Any, flags: int) -> CodePoints:
    """Return the set of a class such as ``\\w``; ``\\d`` is all digits with the flag u alone."""
    if category is op.CATEGORY_DIGIT and not flags & _UNICODE:
        return ascii_class("DIGIT")
    name = str(category)
    kind = name.rsplit("_", 1)[-1]
    chars = ascii_class(kind) if flags & _ASCII_ONLY else unicode_class(kind)
    return ~chars if "_NOT_" in name else chars
