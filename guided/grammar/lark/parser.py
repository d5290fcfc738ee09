"""The statements of a Lark grammar, cut into tokens and read by recursive descent::

    statement:    ("%override" | "%extend")? definition | "%ignore" choice | "%declare" NAME+
                | "%import" "."? NAME ("." NAME)* ("(" NAME ("," NAME)* ")" | "->" NAME)?
    definition:   MARKS? RULE ("{" RULE ("," RULE)* "}")? ("." NUMBER)? ":" choice
                | TERMINAL ("." NUMBER)? ":" choice
    choice:       alternative ("|" alternative)*
    alternative:  (item ("?" | "*" | "+" | "~" NUMBER (".." NUMBER)?)?)* ("->" RULE)?
    item:         "(" choice ")" | "[" choice "]" | value
    value:        TERMINAL | SPECIAL | LITERAL (".." LITERAL)? | RULE ("{" value ("," value)* "}")?

A statement ends with its line; a line that begins with ``|`` continues the one before.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from guided.errors import ConstraintError, InvalidConstraintError, LimitExceededError
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
    Tree,
    Use,
)
from guided.runtime.fuel import spend
from guided.spec.source_position import SourcePosition

__all__ = ["MAX_DEPTH", "parse_lark"]

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
# By the number of the group, which a match returns faster than its name.
_KINDS: Final = {index: kind for kind, index in _TOKEN.groupindex.items()}
_STATEMENT: Final = re.compile(r"%\w+")
_STATEMENTS: Final = "%import, %ignore, %declare, %override, %extend and, in rules, %json"
_UNFINISHED: Final = {'"': "the text is not closed", "/": "the pattern is not closed"}


class Token:
    """A piece of the text; ``kind`` is the sign or statement, or the name of its group above."""

    __slots__ = ("kind", "position", "text")

    def __init__(self, kind: str, text: str, position: int) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.position: Final = position


def tokens_of(text: str) -> list[Token]:
    """Return the tokens in order, with a "line" where a statement may end; the last has kind "end".

    Blanks and comments are left out. A line that begins with ``|`` is no end: it is a "|". Raises
    InvalidConstraintError with the position.
    """
    spend(len(text) // 4)
    # So the last statement also ends with its line.
    ended = text + "\n"
    tokens: list[Token] = []
    position = 0
    while position < len(ended):
        found = _TOKEN.match(ended, position)
        if found is None:
            # The error points to the first sign that is no token, after blanks.
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


MAX_DEPTH: Final = 100
"""Brackets nested in each other."""
_MAX_DIGITS: Final = 9
"""Digits of a number; anything repeated that often is too large for an automaton anyway."""

_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_NAMES: Final = ("rule", "terminal")
_LITERALS: Final = ("literal", "pattern")


def parse_lark(text: str) -> list[Statement]:
    """Return the statements of a grammar.

    Raises InvalidConstraintError or LimitExceededError, both with line, column and caret.
    """
    return _Parser(text).statements()


class _Parser:
    """Recursive descent over the tokens; a method for each rule of the grammar at the top.

    Each method begins at the token ``_here`` and stops at the first one after what it has read. The
    last token, "end", is never read, so there is always one. After an error the parser is unusable.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0
        """The number of open brackets and arguments."""
        self._treeless = ""
        """What is being read, for errors, if Lark makes no tree of it that an alias could name.

        Empty for rules. Set before each body.
        """

    def statements(self) -> list[Statement]:
        """Return all statements in order; each must end with its line."""
        found: list[Statement] = []
        while self._kind != "end":
            if self._kind == "line":
                self._at += 1
                continue
            found.append(self._statement())
            self._take(("line",), 'expected "|", or the end of the line')
        return found

    def _statement(self) -> Statement:
        """Return the statement that begins here, up to its end of line, which is not read."""
        token = self._here
        if token.kind != "statement":
            return self._definition("")
        self._at += 1
        match token.text:
            case "%ignore":
                return self._ignore(token)
            case "%declare":
                names = [self._name("names to declare")]
                while self._kind in _NAMES:
                    names.append(self._name(""))
                return Declare(tuple(names))
            case "%import":
                return self._import(token.position)
        return self._definition(token.text)

    def _ignore(self, token: Token) -> Ignore:
        """Return what is ignored, after the ``%ignore`` that ``token`` is."""
        self._treeless = "what is ignored"
        body = self._choice()
        if isinstance(body, Series) and not body.parts:
            raise self._invalid(token, "what is ignored is empty")
        return Ignore(body, token.position)

    def _definition(self, how: str) -> Define:
        """Return a definition; ``how`` is %override, %extend or empty, and was read before.

        Marks and the priority are read but not kept: they do not change which texts are valid.
        """
        marks = self._accept("marks")
        kinds = _NAMES if marks is None else ("rule",)
        token = self._take(kinds, "a rule or a terminal is defined as NAME: …")
        is_inlined = token.text.startswith("_")
        if marks is not None and "?" in marks.text and is_inlined:
            raise self._invalid(marks, f"{token.text!r} is inlined by its name, without a ?")
        parameters: list[Name] = []
        if token.kind == "rule" and self._accept("{"):
            parameters.append(self._parameter())
            while self._accept(","):
                parameters.append(self._parameter())
            self._take(("}",), "expected }")
        if self._accept("."):
            self._number("a priority")
        self._take((":",), "missing colon: a rule or a terminal is defined as NAME: …")
        self._treeless = (
            "a terminal" if token.kind == "terminal" else "what is inlined" if is_inlined else ""
        )
        return Define(how, _named(token), tuple(parameters), self._choice())

    def _parameter(self) -> Name:
        return _named(self._take(("rule",), "expected a parameter, in small letters"))

    def _import(self, position: int) -> Import:
        """Return an import after its ``%import``, which stands at ``position``.

        ``a.b.c`` imports c from the grammar a.b; ``a.b (c, d)`` imports several names from it.
        """
        self._accept(".")  # Beside the grammar there is nothing but what is given with it.
        path = [self._name("a name to import").text]
        while self._accept("."):
            path.append(self._name("a name to import").text)
        if self._accept("("):
            names = [self._name("a name to import").text]
            while self._accept(","):
                names.append(self._name("a name to import").text)
            self._take((")",), "expected )")
            return Import(tuple(path), {name: name for name in names}, position)
        *grammar, name = path
        if not grammar:
            raise self._invalid(self._tokens[self._at - 1], f"nothing is imported from {name!r}")
        alias = self._name("the name that it has here").text if self._accept("->") else name
        return Import(tuple(grammar), {name: alias}, position)

    def _choice(self) -> Tree:
        options = [self._alternative()]
        while self._accept("|"):
            options.append(self._alternative())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _alternative(self) -> Tree:
        """Items up to a bar, a closing bracket or the end of the line; an alias is read, not kept.

        A single item is returned as itself.
        """
        parts: list[Tree] = []
        while (item := self._item()) is not None:
            parts.append(self._repeated(item))
        if self._accept("->"):
            alias = self._take(("rule",), "expected an alias, in small letters")
            if self._depth:
                raise self._invalid(alias, "an alias stands in brackets: it names a whole tree")
            if self._treeless:
                what = f"an alias stands in {self._treeless}: there is no tree to name"
                raise self._invalid(alias, what)
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _item(self) -> Tree | None:
        """Return what stands here, ``None`` if the alternative ends; brackets with all in them.

        ``[x]`` is an ``x`` that may be left out.
        """
        opening = self._here
        if opening.kind not in ("(", "["):
            return self._value()
        self._enter()
        self._at += 1
        body = self._choice()
        closing = ")" if opening.kind == "(" else "]"
        if self._kind in ("line", "end"):
            raise self._invalid(opening, f"this {opening.kind} is not closed")
        self._take((closing,), f"expected {closing}")
        self._depth -= 1
        return body if closing == ")" else Repeated(body, 0, 1)

    def _value(self) -> Tree | None:
        """Return a literal, range, name or use of a template; ``None`` if none begins here."""
        token = self._here
        if token.kind in _LITERALS:
            self._at += 1
            literal = Literal(token.text, token.position)
            if token.kind == "pattern" or not self._accept(".."):
                return literal
            last = self._take(("literal",), "expected the last character of a range")
            return Range(literal, Literal(last.text, last.position))
        if token.kind == "special":
            self._at += 1
            return SpecialName(token.text, token.position)
        if token.kind not in _NAMES:
            return None
        self._at += 1
        name = _named(token)
        if token.kind == "terminal" or not self._accept("{"):
            return name
        arguments = [self._argument()]
        while self._accept(","):
            arguments.append(self._argument())
        self._take(("}",), "expected }")
        return Use(name, tuple(arguments))

    def _argument(self) -> Tree:
        """Return an argument of a template; nested ones count as brackets do."""
        self._enter()
        value = self._value()
        if value is None:
            raise self._invalid(self._here, "expected a name, a text or a pattern")
        self._depth -= 1
        return value

    def _repeated(self, item: Tree) -> Tree:
        """Return the item with the sign after it that says how often it occurs, if there is one."""
        token = self._here
        bounds = _SIGNS.get(token.kind)
        if bounds is not None:
            self._at += 1
        elif self._accept("~"):
            first = self._here
            low = high = self._number("how often")
            if self._accept(".."):
                high = self._number("how often at most")
            if not 0 <= low <= high:
                raise self._invalid(first, f"the bounds {low}..{high} are out of order")
            bounds = low, high
        else:
            return item
        return Repeated(item, *bounds)

    def _number(self, what: str) -> int:
        """Read a number, perhaps with a sign; ``what`` says in the error what it is for."""
        token = self._take(("number",), f"expected a number, {what}")
        if len(token.text) > _MAX_DIGITS:
            raise LimitExceededError(
                self._message(token, f"the number has more than {_MAX_DIGITS} digits"),
                limit=_MAX_DIGITS,
                field="constraint",
            )
        return int(token.text)

    def _enter(self) -> None:
        """Open a bracket or an argument; the caller reduces ``_depth`` again at its end.

        Raises LimitExceededError past MAX_DEPTH, as everything that walks trees is recursive.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise LimitExceededError(
                self._message(self._here, f"the rule nests deeper than {MAX_DEPTH}"),
                limit=MAX_DEPTH,
                field="constraint",
                hint="give what is inside a name of its own",
            )

    def _name(self, what: str) -> Name:
        return _named(self._take(_NAMES, f"expected {what}"))

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind

    def _accept(self, kind: str) -> Token | None:
        """Read the token here and return it if it is of this kind, else return ``None``."""
        token = self._tokens[self._at]
        if token.kind != kind:
            return None
        self._at += 1
        return token

    def _take(self, kinds: Collection[str], expected: str) -> Token:
        """Read the token here, which must be of one of the kinds; ``expected`` is for the error."""
        token = self._here
        if token.kind not in kinds:
            found = "the end of the line" if token.kind in ("line", "end") else token.text[:20]
            raise self._invalid(token, f"unexpected {found}: {expected}")
        spend(1)
        self._at += 1
        return token

    def _invalid(self, token: Token, what: str) -> ConstraintError:
        return InvalidConstraintError(self._message(token, what), position=token.position)

    def _message(self, token: Token, what: str) -> str:
        return SourcePosition(self._text, token.position).message(what)


def _named(token: Token) -> Name:
    return Name(token.text, token.position)
