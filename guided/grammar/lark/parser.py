"""A recursive-descent parser of Lark grammars, with its tokenizer::

    statement:    ("%override" | "%extend")? definition | "%ignore" choice | "%declare" NAME+
                | "%import" "."? NAME ("." NAME)* ("(" NAME ("," NAME)* ")" | "->" NAME)?
    definition:   MARKS? RULE ("{" RULE ("," RULE)* "}")? ("." NUMBER)? ":" choice
                | TERMINAL ("." NUMBER)? ":" choice
    choice:       alternative ("|" alternative)*
    alternative:  (item ("?" | "*" | "+" | "~" NUMBER (".." NUMBER)?)?)* ("->" RULE)?
    item:         "(" choice ")" | "[" choice "]" | value
    value:        TERMINAL | SPECIAL | LITERAL (".." LITERAL)? | RULE ("{" value ("," value)* "}")?

A statement ends at the end of its line; a line that begins with ``|`` continues the one before.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import InvalidConstraintError
from guided.grammar.lark.syntax import (
    Alternatives,
    Declare,
    Define,
    Ignore,
    Import,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    SpecialName,
    Statement,
    TemplateUse,
    Tree,
)
from guided.grammar.token_parser import REPEAT_BOUNDS, Token, TokenParser
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["parse_lark"]

# A token may follow blanks. Frequent ones come first, where their order does not matter. A comment
# includes the line breaks before it, as in Lark.
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
    | (?P<special><[^<>\s]++>)
    | (?P<blank>\\[ ]*\n)
    | (?P<number>[+-]?\d+)
    | (?P<statement>%(?:override|declare|extend|ignore|import))
    | (?P<marks>(?:!\??|\?!?)(?=[_a-z]))
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# By group number: ``Match.lastindex`` is faster than ``Match.lastgroup``.
_KIND_BY_GROUP: Final = {index: kind for kind, index in _TOKEN.groupindex.items()}
_STATEMENT: Final = re.compile(r"%\w+")
_STATEMENTS: Final = "%import, %ignore, %declare, %override, %extend and, in rules, %json"
_UNFINISHED: Final = {'"': "the text is not closed", "/": "the pattern is not closed"}


def tokenize(text: str) -> list[Token]:
    """Return the tokens in order, with a "line" where a statement may end; the last has kind "end".

    Blanks and comments are left out. Where the next line begins with ``|`` the statement goes on:
    there is only a "|". Raises InvalidConstraintError with the position.
    """
    spend(len(text) // 4)
    # The last statement too must end with a line break.
    terminated = text + "\n"
    tokens: list[Token] = []
    position = 0
    while position < len(terminated):
        found = _TOKEN.match(terminated, position)
        if found is None:
            # The error points to the first character after blanks.
            position = len(text) - len(text[position:].lstrip(" \t"))
            sign = text[position]
            what = _UNFINISHED.get(sign, f"{sign!r} means nothing here")
            statement = _STATEMENT.match(text, position)
            if statement is not None:
                what = f"there is no {statement.group()}, only {_STATEMENTS}"
            raise InvalidConstraintError(
                SourcePosition(text, position).message(what), position=position
            )
        index = found.lastindex
        assert index is not None, "it is one of the groups"
        kind = _KIND_BY_GROUP[index]
        begin, position = found.span(index)
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


_MAX_DIGITS: Final = 9
"""The most digits of a number; an automaton with so many repeats would be too large anyway."""

_NAMES: Final = ("rule", "terminal")
_LITERALS: Final = ("literal", "pattern")


def parse_lark(text: str) -> list[Statement]:
    """Return the statements of a grammar, in order.

    Raises InvalidConstraintError or LimitExceededError, both with line, column and caret.
    """
    return _Parser(text).parse_statements()


class _Parser(TokenParser):
    """Parses the tokens by recursive descent; a method for each rule of the grammar at the top."""

    def __init__(self, text: str) -> None:
        super().__init__(text, tokenize(text))
        self._alias_refused_in = ""
        """Where an alias is refused, for the error ("a terminal"); empty in bodies of rules.

        An alias names a parse tree, and Lark builds none for terminals, inlined rules and ignored
        text. Set before each body is parsed.
        """

    def parse_statements(self) -> list[Statement]:
        """Parse all statements; each must end with its line."""
        found: list[Statement] = []
        while self._current_kind != "end":
            if self._current_kind == "line":
                self._index += 1
                continue
            found.append(self._parse_statement())
            self._expect(("line",), 'expected "|", or the end of the line')
        return found

    def _parse_statement(self) -> Statement:
        """Parse a statement up to its end of line, which is not read."""
        token = self._current
        if token.kind != "statement":
            return self._parse_definition("")
        self._index += 1
        match token.text:
            case "%ignore":
                return self._parse_ignore(token)
            case "%declare":
                names = [self._parse_name("names to declare")]
                while self._current_kind in _NAMES:
                    names.append(self._parse_name(""))
                return Declare(tuple(names))
            case "%import":
                return self._parse_import(token.position)
        return self._parse_definition(token.text)

    def _parse_ignore(self, token: Token) -> Ignore:
        """Parse what is ignored, after ``token``, the ``%ignore``."""
        self._alias_refused_in = "what is ignored"
        body = self._parse_choice()
        if isinstance(body, Series) and not body.parts:
            raise self._invalid_at(token, "what is ignored is empty")
        return Ignore(body, token.position)

    def _parse_definition(self, modifier: str) -> Define:
        """Parse a definition, after ``modifier``: %override, %extend or nothing.

        Marks and priorities are dropped, as they do not change which texts are valid.
        """
        marks = self._accept("marks")
        kinds = _NAMES if marks is None else ("rule",)
        token = self._expect(kinds, "a rule or a terminal is defined as NAME: …")
        is_inlined = token.text.startswith("_")
        if marks is not None and "?" in marks.text and is_inlined:
            raise self._invalid_at(marks, f"{token.text!r} is inlined by its name, without a ?")
        parameters: list[Name] = []
        if token.kind == "rule" and self._accept("{"):
            parameters.append(self._parse_parameter())
            while self._accept(","):
                parameters.append(self._parse_parameter())
            self._expect(("}",), "expected }")
        if self._accept("."):
            self._parse_number("a priority")
        self._expect((":",), "missing colon: a rule or a terminal is defined as NAME: …")
        self._alias_refused_in = (
            "a terminal" if token.kind == "terminal" else "what is inlined" if is_inlined else ""
        )
        return Define(modifier, _name_from(token), tuple(parameters), self._parse_choice())

    def _parse_parameter(self) -> Name:
        return _name_from(self._expect(("rule",), "expected a parameter, in small letters"))

    def _parse_import(self, position: int) -> Import:
        """Parse an import, after the ``%import`` at ``position``.

        ``a.b.c`` imports c from the grammar a.b; ``a.b (c, d)`` imports several names from it.
        """
        # A relative import; the dot means nothing, as grammars are passed as texts, not as files.
        self._accept(".")
        path = [self._parse_name("a name to import").text]
        while self._accept("."):
            path.append(self._parse_name("a name to import").text)
        if self._accept("("):
            names = [self._parse_name("a name to import").text]
            while self._accept(","):
                names.append(self._parse_name("a name to import").text)
            self._expect((")",), "expected )")
            return Import(tuple(path), {name: name for name in names}, position)
        *grammar, name = path
        if not grammar:
            raise self._invalid_at(
                self._tokens[self._index - 1], f"nothing is imported from {name!r}"
            )
        alias = self._parse_name("the name that it has here").text if self._accept("->") else name
        return Import(tuple(grammar), {name: alias}, position)

    def _parse_choice(self) -> Tree:
        options = [self._parse_alternative()]
        while self._accept("|"):
            options.append(self._parse_alternative())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _parse_alternative(self) -> Tree:
        """Parse items up to a bar, a closing bracket or the end of the line; an alias is dropped.

        A single item is returned as itself.
        """
        parts: list[Tree] = []
        while (item := self._parse_item()) is not None:
            parts.append(self._parse_repeat(item))
        if self._accept("->"):
            alias = self._expect(("rule",), "expected an alias, in small letters")
            if self._depth:
                raise self._invalid_at(alias, "an alias stands in brackets: it names a whole tree")
            if self._alias_refused_in:
                what = f"an alias stands in {self._alias_refused_in}: there is no tree to name"
                raise self._invalid_at(alias, what)
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _parse_item(self) -> Tree | None:
        """Parse a value or a group in brackets; ``None`` if the alternative ends here.

        ``[x]`` is an optional ``x``.
        """
        opening = self._current
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

    def _parse_value(self) -> Tree | None:
        """Parse a literal, range, name or use of a template; ``None`` if none begins here."""
        token = self._current
        if token.kind in _LITERALS:
            self._index += 1
            literal = Literal(token.text, token.position)
            if token.kind == "pattern" or not self._accept(".."):
                return literal
            last = self._expect(("literal",), "expected the last character of a range")
            return Range(literal, Literal(last.text, last.position))
        if token.kind == "special":
            self._index += 1
            return SpecialName(token.text, token.position)
        if token.kind not in _NAMES:
            return None
        self._index += 1
        name = _name_from(token)
        if token.kind == "terminal" or not self._accept("{"):
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
        elif self._accept("~"):
            first = self._current
            low = high = self._parse_number("how often")
            if self._accept(".."):
                high = self._parse_number("how often at most")
            if not 0 <= low <= high:
                raise self._invalid_at(first, f"the bounds {low}..{high} are out of order")
            bounds = low, high
        else:
            return item
        return Repeated(item, *bounds)

    def _parse_number(self, what: str) -> int:
        """Parse a number, perhaps with a sign; ``what`` says in the error what it is for."""
        token = self._expect(("number",), f"expected a number, {what}")
        if len(token.text.lstrip("+-")) > _MAX_DIGITS:
            raise self._limit_error(
                token, f"the number has more than {_MAX_DIGITS} digits", _MAX_DIGITS
            )
        return int(token.text)

    def _parse_name(self, what: str) -> Name:
        return _name_from(self._expect(_NAMES, f"expected {what}"))

    def _name_of(self, token: Token) -> str:
        """Return what errors call a token: a line that ends is not shown as a line break."""
        return "the end of the line" if token.kind in ("line", "end") else token.text[:20]


def _name_from(token: Token) -> Name:
    return Name(token.text, token.position)
