"""A recursive-descent parser of Lark grammars::

    statement:    ("%override" | "%extend")? definition | "%ignore" choice | "%declare" NAME+
                | "%import" "."? NAME ("." NAME)* ("(" NAME ("," NAME)* ")" | "->" NAME)?
                | "%llguidance" JSON
    definition:   MARKS? RULE ("{" RULE ("," RULE)* "}")? ("." NUMBER)? attributes? ":" choice
                | TERMINAL ("." NUMBER)? ":" choice
    attributes:   "[" attribute ("," attribute)* "]"
    attribute:    "lazy" | "suffix" "=" value | ("capture" | "stop_capture") ("=" LITERAL)?

``choice`` and ``value`` are those of ``bodies``; options and attributes are of llguidance. A
statement ends at the end of its line; a line that begins with ``|`` continues the one before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from guided.grammar.lark.additions import REFUSED_ATTRIBUTES, read_options
from guided.grammar.lark.bodies import NAMES, BodyParser, name_from
from guided.grammar.lark.syntax import (
    Declare,
    Define,
    Ignore,
    Import,
    Name,
    Series,
    Shortest,
    Statement,
    Tree,
)
from guided.grammar.token_parser import Token

__all__ = ["parse_lark"]

_EMPTY_SUFFIX_HINT: Final = "leave it out: an answer ends where its grammar does"
_ATTRIBUTES: Final = "lazy, suffix=, capture and stop_capture"


def parse_lark(text: str) -> list[Statement]:
    """Return the statements of a grammar, in order.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError, all of them with
    line, column and caret.
    """
    return _Parser(text).parse_statements()


class _Attributes(NamedTuple):
    """The attributes of a rule that say what its texts are."""

    position: int
    is_lazy: bool
    suffix: Tree | None
    """What ends its texts; it is lazy then."""

    def applied_to(self, body: Tree) -> Tree:
        """Return the body of the rule with its attributes."""
        whole = body if self.suffix is None else Series((body, self.suffix))
        return Shortest(whole, self.position) if self.is_lazy else body


class _Parser(BodyParser):
    """Parses the tokens by recursive descent; a method for each rule of the grammar at the top."""

    def parse_statements(self) -> list[Statement]:
        """Parse all statements; each must end with its line."""
        found: list[Statement] = []
        while self._current_kind != "end":
            if self._current_kind == "line":
                self._index += 1
                continue
            if self._current.text == "%llguidance":
                self._skip_options()
            else:
                found.append(self._parse_statement())
            self._expect(("line",), 'expected "|", or the end of the line')
        return found

    def _skip_options(self) -> None:
        """Check and pass over the options of ``%llguidance``, which has no effect."""
        statement = self._current
        end = read_options(self._text, statement.position + len(statement.text))
        while self._current.position < end:
            self._index += 1

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
                while self._current_kind in NAMES:
                    names.append(self._parse_name(""))
                return Declare(tuple(names))
            case "%import":
                return self._parse_import(token.position)
        return self._parse_definition(token.text)

    def _parse_ignore(self, token: Token) -> Ignore:
        """Parse what is ignored, after ``token``, the ``%ignore``."""
        self._alias_refused_in, self._is_text = "what is ignored", True
        body = self._parse_choice()
        if isinstance(body, Series) and not body.parts:
            raise self._invalid_at(token, "what is ignored is empty")
        return Ignore(body, token.position)

    def _parse_definition(self, modifier: str) -> Define:
        """Parse a definition, after ``modifier``: %override, %extend or nothing.

        Marks and priorities are dropped, as they do not change which texts are valid.
        """
        marks = self._accept("marks")
        kinds = NAMES if marks is None else ("rule",)
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
        attributes = self._parse_attributes(token) if self._current_kind == "[" else None
        self._expect((":",), "missing colon: a rule or a terminal is defined as NAME: …")
        self._alias_refused_in = (
            "a terminal" if token.kind == "terminal" else "what is inlined" if is_inlined else ""
        )
        self._is_text = token.kind == "terminal" or (attributes is not None and attributes.is_lazy)
        body = self._parse_choice()
        if attributes is not None:
            body = attributes.applied_to(body)
        return Define(modifier, name_from(token), tuple(parameters), body)

    def _parse_attributes(self, name: Token) -> _Attributes:
        """Parse the attributes of a rule, after its ``name``."""
        opening = self._current
        self._index += 1
        if name.kind == "terminal":
            what = f"attributes are for rules, and {name.text!r} is a terminal"
            hint = "give them to a rule in small letters, which has the terminal as its body"
            raise self._invalid_at(opening, what, hint)
        given, suffix = set[str](), None
        while True:
            key = self._expect(("rule",), f"expected {_ATTRIBUTES}")
            if key.text in given:
                raise self._invalid_at(key, f"{key.text} is given twice")
            given.add(key.text)
            if key.text in REFUSED_ATTRIBUTES:
                raise REFUSED_ATTRIBUTES[key.text].at(self._text, key.position)
            match key.text:
                case "lazy":
                    pass
                case "suffix":
                    self._expect(("=",), "expected =, and what ends the text")
                    suffix = self._parse_argument()
                    if suffix == Series(()):
                        raise self._invalid_at(key, "the suffix is empty", _EMPTY_SUFFIX_HINT)
                case "capture" | "stop_capture":
                    # It names a part of the answer, which has the same texts without it.
                    if self._accept("="):
                        self._expect(("literal",), "expected a name in quotes")
                case _:
                    what = f"there is no attribute {key.text!r}, only {_ATTRIBUTES}"
                    raise self._invalid_at(key, what)
            if not self._accept(","):
                break
        self._expect(("]",), "expected ]")
        return _Attributes(opening.position, not given.isdisjoint(("lazy", "suffix")), suffix)

    def _parse_parameter(self) -> Name:
        return name_from(self._expect(("rule",), "expected a parameter, in small letters"))

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

    def _parse_name(self, what: str) -> Name:
        return name_from(self._expect(NAMES, f"expected {what}"))
