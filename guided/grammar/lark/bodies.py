"""A recursive-descent parser of what stands after the colon of a Lark definition::

    choice:       alternative ("|" alternative)*
    alternative:  series ("&" series)* ("->" RULE)?
    series:       (item repeat?)*
    repeat:       "?" | "*" | "+" | "~" NUMBER (".." NUMBER)? | "{" NUMBER? ("," NUMBER?)? "}"
    item:         "~"? ("(" choice ")" | "[" choice "]" | value)
    value:        TERMINAL | SPECIAL | LITERAL (".." LITERAL)? | RULE ("{" value ("," value)* "}")?
                | "%json" JSON

``&``, ``~`` before an item, repeats in braces, ``%json`` and ``""`` for nothing are of llguidance.
"""

from __future__ import annotations

from typing import Final

from guided.grammar.lark.additions import Refusal
from guided.grammar.lark.syntax import (
    Alternatives,
    Common,
    Complement,
    InlineSchema,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    SpecialName,
    TemplateUse,
    Tree,
)
from guided.grammar.lark.tokens import tokenize
from guided.grammar.token_parser import REPEAT_BOUNDS, Token, TokenParser

__all__ = ["NAMES", "BodyParser", "name_from"]

_MAX_DIGITS: Final = 9
"""The most digits of a number; an automaton with so many repeats would be too large anyway."""

NAMES: Final = ("rule", "terminal")
"""The kinds of tokens that are names."""
_LITERALS: Final = ("literal", "pattern")
_BEGIN_ITEMS: Final = (*NAMES, *_LITERALS, "(", "[", "~")
"""Where one of these follows a ``~``, it excludes it; else it repeats what is before."""


class BodyParser(TokenParser):
    """Parses bodies by recursive descent; a method for each rule of the grammar at the top."""

    def __init__(self, text: str) -> None:
        super().__init__(text, tokenize(text))
        self._alias_refused_in = ""
        """Where an alias is refused, for the error ("a terminal"); empty in bodies of rules.

        An alias names a parse tree, and Lark builds none for terminals, inlined rules and ignored
        text. Set before each body is parsed.
        """
        self._is_text = True
        """Whether the body is that of a terminal, where ``&`` and ``~x`` may stand; likewise."""

    def _parse_choice(self) -> Tree:
        options = [self._parse_alternative()]
        while self._accept("|"):
            options.append(self._parse_alternative())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _parse_alternative(self) -> Tree:
        """Parse up to a bar, a closing bracket or the end of the line; an alias is dropped."""
        body = self._parse_series()
        if self._current_kind == "&":
            body = self._parse_common(body)
        if self._accept("->"):
            alias = self._expect(("rule",), "expected an alias, in small letters")
            if self._depth:
                raise self._invalid_at(alias, "an alias stands in brackets: it names a whole tree")
            if self._alias_refused_in:
                what = f"an alias stands in {self._alias_refused_in}: there is no tree to name"
                raise self._invalid_at(alias, what)
        return body

    def _parse_common(self, first: Tree) -> Common:
        """Parse the series after ``first``, each after a ``&``."""
        sign = self._current
        self._refuse_in_rules(sign)
        parts = [first]
        while self._accept("&"):
            parts.append(self._parse_series())
        if Series(()) in parts:
            raise self._invalid_at(sign, "a side of & is empty")
        return Common(tuple(parts), sign.position)

    def _parse_series(self) -> Tree:
        """Parse items, each with its repeat; a single one is returned as itself."""
        parts: list[Tree] = []
        while (item := self._parse_item()) is not None:
            parts.append(self._parse_repeat(item))
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _parse_item(self) -> Tree | None:
        """Parse a value or a group in brackets; ``None`` if the series ends here.

        ``[x]`` is an optional ``x``.
        """
        opening = self._current
        if opening.kind == "~":
            return self._parse_complement()
        if opening.kind not in ("(", "["):
            return self._parse_value()
        self._enter_level()
        self._index += 1
        body = self._parse_choice()
        closing = ")" if opening.kind == "(" else "]"
        if self._current_kind in ("line", "end"):
            raise self._invalid_at(opening, f"this {opening.kind} is not closed")
        self._expect((closing,), f"expected {closing}")
        self._depth -= 1
        return body if closing == ")" else Repeated(body, 0, 1)

    def _parse_complement(self) -> Complement:
        """Parse ``~`` and the item after it; several of them nest like brackets."""
        sign = self._current
        self._refuse_in_rules(sign)
        self._enter_level()
        self._index += 1
        item = self._parse_item()
        if item is None:
            what = f"unexpected {self._name_of(self._current)}: expected what is excluded"
            raise self._invalid_at(self._current, what)
        self._depth -= 1
        return Complement(item, sign.position)

    def _parse_value(self) -> Tree | None:
        """Parse a literal, range, name or use of a template; ``None`` if none begins here."""
        token = self._current
        if token.kind in _LITERALS:
            self._index += 1
            if token.text == '""' and self._current_kind != "..":
                return Series(())
            literal = Literal(token.text, token.position)
            if token.kind == "pattern" or not self._accept(".."):
                return literal
            last = self._expect(("literal",), "expected the last character of a range")
            return Range(literal, Literal(last.text, last.position))
        if token.kind == "json":
            self._index += 1
            return InlineSchema(token.text.removeprefix("%json").lstrip(), token.position)
        if token.kind == "special":
            return SpecialName(self._read_special_name(), token.position)
        if token.kind not in NAMES:
            return None
        self._index += 1
        name = name_from(token)
        if token.kind == "terminal" or self._begins_bounds() or not self._accept("{"):
            return name
        arguments = [self._parse_argument()]
        while self._accept(","):
            arguments.append(self._parse_argument())
        self._expect(("}",), "expected }")
        return TemplateUse(name, tuple(arguments))

    def _parse_argument(self) -> Tree:
        """Parse an argument of a template; they nest like brackets."""
        self._enter_level()
        value = self._parse_value()
        if value is None:
            raise self._invalid_at(self._current, "expected a name, a text or a pattern")
        self._depth -= 1
        return value

    def _parse_repeat(self, item: Tree) -> Tree:
        """Parse the repeat operator after an item, if there is one."""
        token = self._current
        bounds = REPEAT_BOUNDS.get(token.kind)
        if bounds is not None:
            self._index += 1
        elif token.kind == "~" and self._tokens[self._index + 1].kind not in _BEGIN_ITEMS:
            bounds = self._parse_bounds("..")
        elif self._begins_bounds():
            bounds = self._parse_bounds(",")
            self._expect(("}",), "expected }")
        else:
            return item
        return Repeated(item, *bounds)

    def _begins_bounds(self) -> bool:
        """Return whether a repeat in braces begins here, and no arguments of a template."""
        return self._current_kind == "{" and self._tokens[self._index + 1].kind in ("number", ",")

    def _parse_bounds(self, between: str) -> tuple[int, int | None]:
        """Parse the bounds of a repeat, after the sign that is the current token.

        ``between`` is the sign between them; where it is a comma, either one may be left out.
        """
        self._index += 1
        first = self._current
        is_open = between == ","
        low = 0 if is_open and first.kind == "," else self._parse_number("how often")
        high: int | None = low
        if self._accept(between):
            is_unbounded = is_open and self._current_kind == "}"
            high = None if is_unbounded else self._parse_number("how often at most")
        if low < 0 or (high is not None and high < low):
            raise self._invalid_at(first, f"the bounds {low}..{high} are out of order")
        return low, high

    def _parse_number(self, what: str) -> int:
        """Parse a number, perhaps with a sign; ``what`` says in the error what it is for."""
        token = self._expect(("number",), f"expected a number, {what}")
        if len(token.text.lstrip("+-")) > _MAX_DIGITS:
            raise self._limit_error(
                token, f"the number has more than {_MAX_DIGITS} digits", _MAX_DIGITS
            )
        return int(token.text)

    def _refuse_in_rules(self, sign: Token) -> None:
        """Raise UnsupportedFeatureError if the body is not that of a terminal."""
        if not self._is_text:
            what = f"{sign.text} stands in a rule; only terminals have it"
            raise Refusal(what, "give this part a terminal of its own, in capital letters").at(
                self._text, sign.position
            )

    def _name_of(self, token: Token) -> str:
        """Return what errors call a token: a line that ends is not shown as a line break."""
        return "the end of the line" if token.kind in ("line", "end") else token.text[:20]


def name_from(token: Token) -> Name:
    """Return the name that a token is."""
    return Name(token.text, token.position)
