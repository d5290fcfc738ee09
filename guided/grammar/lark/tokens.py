"""The tokens of Lark grammars."""

from __future__ import annotations

import re
from typing import Final

from guided.errors import ConstraintError, InvalidConstraintError
from guided.grammar.lark.additions import REFUSED_FORMS
from guided.grammar.lark.json_values import find_json_end
from guided.grammar.token_parser import Token
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["tokenize"]

# A token may follow blanks. Frequent ones come first, where their order does not matter. A comment
# includes the line breaks before it, as in Lark. In llguidance names may have dashes inside.
_TOKEN: Final = re.compile(
    r"""
    [ \t]*+(?:
    (?P<rule>_?[a-z][_a-z0-9]*(?:-[_a-z0-9]+)*)
    | (?P<terminal>_?[A-Z][_A-Z0-9]*(?:-[_A-Z0-9]+)*)
    | (?P<sign>\.\.|->|\*|\+(?!\d)|\?(?!!?[a-z_])|[][{}().|~,&=]|:(?!:))
    | (?P<literal>"(?:\\[^\n]|[^"\\\n]++)*"i?)
    | (?P<comment>\s*+(?://|\#)[^\n]*)
    | (?P<line>(?:\r?\n)+\s*\|?)
    | (?P<pattern>/(?:\\.|[^/\\]++)+/[imslux]*)
    | (?P<special><[^<>\s]++>)
    | (?P<json>%json\b\s*+)
    | (?P<blank>\\[ ]*\n)
    | (?P<number>[+-]?\d+)
    | (?P<statement>%(?:override|declare|extend|ignore|import|llguidance))
    | (?P<marks>(?:!\??|\?!?)(?=[_a-z]))
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# By group number: ``Match.lastindex`` is faster than ``Match.lastgroup``.
_KIND_BY_GROUP: Final = {index: kind for kind, index in _TOKEN.groupindex.items()}
_WRONG_FORM: Final = re.compile(r"(?P<reference>@\w+)|%\w+|::|.", re.DOTALL)
"""What an error names where no token begins."""
_STATEMENTS: Final = "%import, %ignore, %declare, %override, %extend and, in rules, %json"
_UNFINISHED: Final = {'"': "the text is not closed", "/": "the pattern is not closed"}


def tokenize(text: str) -> list[Token]:
    """Return the tokens in order, with a "line" where a statement may end; the last has kind "end".

    Blanks and comments are left out. Where the next line begins with ``|`` the statement goes on:
    there is only a "|". A schema is one token, with the ``%json`` before it. Raises
    InvalidConstraintError or UnsupportedFeatureError, with the position.
    """
    spend(len(text) // 4)
    # The last statement too must end with a line break.
    terminated = text + "\n"
    tokens: list[Token] = []
    position = 0
    while position < len(terminated):
        found = _TOKEN.match(terminated, position)
        if found is None:
            raise _no_token_error(text, position)
        index = found.lastindex
        assert index is not None, "it is one of the groups"
        kind = _KIND_BY_GROUP[index]
        begin, position = found.span(index)
        if kind == "json":
            # Not the line break that is put after the text.
            position = find_json_end(text, min(position, len(text)), "%json")
        piece = terminated[begin:position]
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


def _no_token_error(text: str, position: int) -> ConstraintError:
    """Return the error where no token begins; it points to the first character after blanks."""
    position = len(text) - len(text[position:].lstrip(" \t"))
    found = _WRONG_FORM.match(text, position)
    assert found is not None, "the line break that ends a grammar is a token"
    form = found.group()
    refusal = REFUSED_FORMS.get(found.lastgroup or form)
    if refusal is not None:
        return refusal.at(text, position)
    what = _UNFINISHED.get(form, f"{form!r} means nothing here")
    if len(form) > 1:
        what = f"there is no {form}, only {_STATEMENTS}"
    return InvalidConstraintError(SourcePosition(text, position).message(what), position=position)
