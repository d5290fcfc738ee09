"""The text of a Lark grammar cut into tokens, where Lark's own loader cuts it."""

from __future__ import annotations

import re
from typing import Final

from guided.errors import InvalidConstraintError
from guided.runtime.fuel import spend
from guided.spec.source_position import Place

__all__ = ["Token", "tokens_of"]

# Behind blanks. What is frequent comes first, where that is what Lark takes, too. A comment takes
# the line breaks before it along.
_TOKEN: Final = re.compile(
    r"""
    [ \t]*+(?:
    (?P<rule>_?[a-z][_a-z0-9]*)
    | (?P<terminal>_?[A-Z][_A-Z0-9]*)
    | (?P<sign>\.\.|->|\*|\+(?!\d)|\?(?!!?[a-z_])|[][{}().|~:,])
    | (?P<literal>"(?:\\[^\n]|[^"\\\n]++)*"i?)
    | (?P<comment>\s*+(?://|\#)[^\n]*)
    | (?P<line>(?:\r?\n)+\s*\|?)
    | (?P<pattern>/(?:\\.|[^/\\]++)+/[imslux]*)
    | (?P<blank>\\[ ]*\n)
    | (?P<number>[+-]?\d+)
    | (?P<statement>%(?:override|declare|extend|ignore|import))
    | (?P<marks>(?:!\??|\?!?)(?=[_a-z]))
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {index: kind for kind, index in _TOKEN.groupindex.items()}
_STATEMENT: Final = re.compile(r"%\w+")
_STATEMENTS: Final = "%import, %ignore, %declare, %override, %extend and, in rules, %json"
_UNFINISHED: Final = {'"': "the text is not closed", "/": "the pattern is not closed"}


class Token:
    """A piece of the text; ``kind`` is what was said by its sign itself, or its group above."""

    __slots__ = ("kind", "position", "text")

    def __init__(self, kind: str, text: str, position: int) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.position: Final = position


def tokens_of(text: str) -> list[Token]:
    """The tokens in order, a "line" where a statement may end, the last of kind "end".

    Blanks and comments are left out. Raises InvalidConstraintError with the place.
    """
    spend(len(text) // 4)
    ended = text + "\n"
    tokens: list[Token] = []
    position = 0
    while position < len(ended):
        found = _TOKEN.match(ended, position)
        if found is None:
            position = len(text) - len(text[position:].lstrip(" \t"))
            sign = text[position]
            what = _UNFINISHED.get(sign, f"{sign!r} means nothing here")
            statement = _STATEMENT.match(text, position)
            if statement is not None:
                what = f"there is no {statement.group()}, only {_STATEMENTS}"
            raise InvalidConstraintError(Place(text, position).message(what), position=position)
        index = found.lastindex
        assert index is not None, "it is one of the groups"
        kind = _KINDS[index]
        begin, position = found.span(index)
        piece = ended[begin:position]
        match kind:
            case "comment" | "blank":
                pass
            case "sign":
                tokens.append(Token(piece, piece, begin))
            case "line" if piece[-1] == "|":
                tokens.append(Token("|", "|", position - 1))
            case _:
                tokens.append(Token(kind, piece, begin))
    tokens.append(Token("end", "the end", len(text)))
    return tokens
