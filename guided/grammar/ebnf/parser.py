"""A recursive-descent parser of EBNF grammars::

    grammar:   (NAME attributes? "::=" choice ahead?)*
    choice:    sequence ("|" sequence)*
    sequence:  (item ("*" | "+" | "?" | BOUNDS)*)*
    item:      LITERAL | CLASS | "." | NAME | SPECIAL | "(" choice ")"
    ahead:     "(=" choice ")"

Line breaks mean nothing: a name before ``::=`` begins a rule. The format is that of llama.cpp
(GBNF) with the additions of xgrammar; docs/grammars.md says where they differ and how each is read.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import (
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Special,
    Terminal,
)
from guided.grammar.ebnf.tokens import error_at, parse_class, parse_literal, tokenize
from guided.grammar.token_parser import REPEAT_BOUNDS, Token, TokenParser
from guided.regular.codepoints import ANY
from guided.regular.expression import Chars
from guided.spec.source_position import check_encodable

__all__ = ["MAX_BOUND", "MAX_GRAMMAR_LENGTH", "lower_ebnf"]

MAX_GRAMMAR_LENGTH: Final = 1_000_000
"""The most characters of a grammar."""
MAX_BOUND: Final = 1_000_000
"""The largest bound of a repeat; what would make too large an automaton anyway."""
_REPEATS: Final = (*REPEAT_BOUNDS, "bounds")
_ATTRIBUTE_HINTS: Final = {
    "lazy": "use guided.Lark, where rules may be lazy",
    "max_chars": "bound the repeats in the rule, as in .{0,400}",
    "max_tokens": "bound the characters, as in .{0,400}, or the whole answer by the request's"
    " max_tokens",
    "temperature": "leave it out, and give the request a temperature",
}
"""By name of an attribute of xgrammar, what to write instead."""


def lower_ebnf(text: str, root: str = "root") -> ContextFreeGrammar:
    """Parse an EBNF grammar; its texts are those of the rule ``root``.

    Raises InvalidConstraintError or UnsupportedFeatureError, with line, column and caret where the
    position is known, or LimitExceededError.
    """
    if len(text) > MAX_GRAMMAR_LENGTH:
        raise LimitExceededError(
            f"the grammar has {len(text)} characters, more than {MAX_GRAMMAR_LENGTH}",
            limit=MAX_GRAMMAR_LENGTH,
            field="constraint",
            hint="move lists of words to a Choice",
        )
    check_encodable(text)
    parser = _Parser(text)
    bodies = parser.parse_rules()
    for name, position in parser.called_at.items():
        if name not in bodies:
            raise error_at(
                InvalidConstraintError, text, position, f"the rule {name!r} is not defined"
            )
    if root not in bodies:
        rules = ", ".join(sorted(bodies)[:10])
        raise InvalidConstraintError(
            f"the grammar has no rule {root!r} to start with",
            hint=f"define it, or start with one of {rules}" if rules else "define it",
        )
    return ContextFreeGrammar(bodies, root)


class _Parser(TokenParser):
    """Parses the tokens by recursive descent; a method for each rule of the grammar at the top."""

    def __init__(self, text: str) -> None:
        super().__init__(text, tokenize(text))
        self._height = 0
        """How deep repeats nest in the body that was parsed last."""
        self.called_at: dict[str, int] = {}
        """The position at which each rule is first called, by name."""

    def parse_rules(self) -> dict[str, Body]:
        """Return the bodies of all rules, by name; rules in ``called_at`` may be undefined."""
        bodies: dict[str, Body] = {}
        while self._current_kind != "end":
            name = self._expect(("name",), "a rule is defined as NAME ::= …")
            if name.text in bodies:
                raise self._invalid_at(name, f"the rule {name.text!r} is defined twice")
            self._skip_attributes()
            self._expect(("defined",), "a rule is defined as NAME ::= …")
            bodies[name.text] = self._parse_choice()
            if self._current_kind == "ahead":
                self._skip_ahead()
        return bodies

    def _parse_choice(self) -> Body:
        """Parse sequences separated by bars; a single one is returned as itself."""
        options = [self._parse_sequence()]
        height = self._height
        while self._accept("|"):
            options.append(self._parse_sequence())
            height = max(height, self._height)
        self._height = height
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _parse_sequence(self) -> Body:
        parts: list[Body] = []
        height = 0
        while (item := self._parse_item()) is not None:
            parts.append(self._parse_repeats(item))
            height = max(height, self._height)
        self._height = height
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _parse_item(self) -> Body | None:
        """Parse one item without its repeats; ``None`` if the sequence ends here."""
        token = self._current
        self._height = 0
        match token.kind:
            case "literal":
                body: Body = Terminal(parse_literal(self._text, token))
            case "class":
                body = Terminal(parse_class(self._text, token))
            case ".":
                body = Terminal(Chars(ANY))
            case "name":
                if self._begins_rule():
                    return None
                self.called_at.setdefault(token.text, token.position)
                body = Call(token.text)
            case "special":
                return Special(self._read_special_name())
            case "(":
                return self._parse_group()
            case "*" | "+" | "?" | "bounds":
                raise self._invalid_at(token, f"nothing stands before {token.text} to repeat")
            case _:
                return None
        self._index += 1
        return body

    def _begins_rule(self) -> bool:
        """Return whether the current token begins the next rule: ``::=`` follows it.

        That it is a name is checked by ``parse_rules``. There may be a class in between, which
        ``parse_rules`` then refuses as an attribute. Not to be called at "end": it reads the token
        after the current one.
        """
        following = self._tokens[self._index + 1]
        if following.kind == "class":
            following = self._tokens[self._index + 2]
        return following.kind == "defined"

    def _parse_group(self) -> Body:
        """Parse what is between the current parenthesis and the closing one."""
        opening = self._current
        self._enter_level()
        self._index += 1
        body = self._parse_choice()
        self._close(opening)
        self._depth -= 1
        return body

    def _close(self, opening: Token) -> None:
        """Read the parenthesis that closes ``opening``."""
        # A name that is not part of the body begins the next rule.
        if self._current_kind in ("end", "name"):
            raise self._invalid_at(opening, "this ( is not closed")
        self._expect((")",), "expected )")

    def _parse_repeats(self, item: Body) -> Body:
        """Parse the repeats after an item, which apply one after another: ``x+?`` is ``(x+)?``."""
        while (token := self._current).kind in _REPEATS:
            self._height += 1
            self._check_nesting(self._height)
            item = Repetition(item, *(REPEAT_BOUNDS.get(token.kind) or self._parse_bounds(token)))
            self._index += 1
        return item

    def _parse_bounds(self, token: Token) -> tuple[int, int | None]:
        """Return the bounds in a token such as ``{2,3}``; ``None`` for no upper bound.

        Raises LimitExceededError past MAX_BOUND, InvalidConstraintError if low is above high.
        """
        # Without zeros in front: Python refuses to read very long numbers.
        numbers = [number.lstrip("0") or "0" for number in re.findall(r"\d+", token.text)]
        if any(len(number) > len(str(MAX_BOUND)) or int(number) > MAX_BOUND for number in numbers):
            raise self._limit_error(
                token,
                f"a bound is above {MAX_BOUND}",
                MAX_BOUND,
                "lower it, or repeat without a bound",
            )
        low = int(numbers[0])
        if "," not in token.text:
            return low, low
        high = int(numbers[1]) if len(numbers) > 1 else None
        if high is not None and high < low:
            raise self._invalid_at(token, f"at least {low} is more than at most {high}")
        return low, high

    def _skip_ahead(self) -> None:
        """Parse and drop a look-ahead at the end of a rule; the rules it calls must be defined."""
        # By it xgrammar finds masks sooner. It says what the grammar implies anyway, so the texts
        # are the same without it.
        opening = self._current
        self._index += 1
        self._parse_choice()
        self._close(opening)
        if not (self._current_kind == "end" or self._begins_rule()):
            raise self._invalid_at(opening, "a look-ahead stands at the end of its rule")

    def _skip_attributes(self) -> None:
        """Pass over the attributes after a rule's name, ``[capture="a"]``.

        Raises UnsupportedFeatureError for others than ``capture``, without which a rule has the
        same texts.
        """
        token = self._accept("class")
        if token is None:
            return
        for attribute in token.text[1:-1].split(","):
            name = attribute.partition("=")[0].strip()
            if name != "capture":
                raise error_at(
                    UnsupportedFeatureError, self._text, token.position,
                    f"the attribute {name!r} of a rule is not supported",
                    _ATTRIBUTE_HINTS.get(name, "leave it out"),
                )  # fmt: skip
