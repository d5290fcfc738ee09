"""What recursive-descent parsers of grammars have in common: tokens, reading them, and errors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guided.errors import (
    ConstraintError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["MAX_DEPTH", "REPEAT_BOUNDS", "Token", "TokenParser"]

MAX_DEPTH: Final = 100
"""How deep brackets may nest, and whatever else a parser or a pass over bodies is recursive for."""
REPEAT_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}


class Token:
    """A token; ``kind`` is the sign itself, another kind of its grammar's tokens, or "end"."""

    __slots__ = ("kind", "position", "text")

    def __init__(self, kind: str, text: str, position: int) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.position: Final = position


class TokenParser:
    """Reads the tokens of a text; a subclass has a method for each rule of its grammar.

    Each method begins at ``_current`` and stops at the first token after what it has read. The last
    token, "end", is never read, so ``_current`` always exists. After an error the parser is
    unusable.
    """

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        """The number of open brackets and of what nests like them."""

    @property
    def _current(self) -> Token:
        return self._tokens[self._index]

    @property
    def _current_kind(self) -> str:
        return self._tokens[self._index].kind

    def _accept(self, kind: str) -> Token | None:
        """Read and return the current token if it is of this kind, else return ``None``."""
        token = self._tokens[self._index]
        if token.kind != kind:
            return None
        self._index += 1
        return token

    def _expect(self, kinds: Collection[str], expected: str) -> Token:
        """Read the current token, which must be of one of ``kinds``; ``expected`` is for errors."""
        token = self._current
        if token.kind not in kinds:
            raise self._invalid_at(token, f"unexpected {self._name_of(token)}: {expected}")
        spend(1)
        self._index += 1
        return token

    def _name_of(self, token: Token) -> str:
        """Return what errors call a token that was not expected."""
        return token.text[:20]

    def _enter_level(self) -> None:
        """Count a bracket, or what nests like one; the caller lowers ``_depth`` again at its end.

        Raises LimitExceededError as ``_check_nesting`` does.
        """
        self._depth += 1
        self._check_nesting(self._depth)

    def _check_nesting(self, levels: int) -> None:
        """Raise LimitExceededError, at the current token, for more levels than may nest."""
        if levels > MAX_DEPTH:
            raise self._limit_error(
                self._current,
                f"the rule nests deeper than {MAX_DEPTH}",
                MAX_DEPTH,
                "give what is inside a name of its own",
            )

    def _read_special_name(self) -> str:
        """Read a special token, ``<name>``, and return its name.

        Raises UnsupportedFeatureError for one by its number, ``<[128010]>``: in each tokenizer that
        is another token.
        """
        token = self._current
        if token.text.startswith("<["):
            what = f"{token.text[:20]} is a token by its number, which is not supported"
            hint = "write its name in the model's tokenizer, such as <|python_tag|>"
            if token.text == "<[*]>":
                what, hint = "<[*]>, any token, is not supported", "write /(?s:.)*/ for any text"
            raise UnsupportedFeatureError(
                self._message_at(token, what), position=token.position, hint=hint
            )
        self._index += 1
        return token.text

    def _invalid_at(self, token: Token, what: str, hint: str | None = None) -> ConstraintError:
        """Return an error that points to a token."""
        return InvalidConstraintError(
            self._message_at(token, what), position=token.position, hint=hint
        )

    def _limit_error(
        self, token: Token, what: str, limit: int, hint: str | None = None
    ) -> LimitExceededError:
        """Return the error for a limit exceeded at a token, with line and caret."""
        return LimitExceededError(
            self._message_at(token, what), limit=limit, field="constraint", hint=hint
        )

    def _message_at(self, token: Token, what: str) -> str:
        return SourcePosition(self._text, token.position).message(what)
