"""EBNF grammars into context-free ones, read by recursive descent::

    grammar:   (NAME "::=" choice ahead?)*
    choice:    sequence ("|" sequence)*
    sequence:  (item ("*" | "+" | "?" | BOUNDS)*)*
    item:      LITERAL | CLASS | "." | NAME | "(" choice ")"
    ahead:     "(=" choice ")"

Line breaks mean nothing: a name before ``::=`` begins a rule. The format is that of llama.cpp
(GBNF) with the additions of xgrammar; docs/grammars.md says where they differ and how each is read.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import (
    ConstraintError,
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
    Terminal,
)
from guided.grammar.ebnf.tokens import Token, class_of, literal_of, refused, tokens_of
from guided.regular.codepoints import ANY
from guided.regular.expression import Chars
from guided.spec.source_position import SourcePosition

__all__ = ["MAX_BOUND", "MAX_DEPTH", "MAX_GRAMMAR_LENGTH", "lower_ebnf"]

MAX_GRAMMAR_LENGTH: Final = 1_000_000
"""Characters of a grammar."""
MAX_DEPTH: Final = 100
"""Parentheses nested in each other, and repeats of repeats."""
MAX_BOUND: Final = 1_000_000
"""The largest bound of a repeat; what is too large for an automaton is refused anyway."""

_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def lower_ebnf(text: str, root: str = "root") -> ContextFreeGrammar:
    """Return the grammar that ``text`` writes; its texts are those of the rule ``root``.

    Raises InvalidConstraintError or UnsupportedFeatureError, with line, column and caret where a
    place can be named, or LimitExceededError.
    """
    if len(text) > MAX_GRAMMAR_LENGTH:
        raise LimitExceededError(
            f"the grammar has {len(text)} characters, more than {MAX_GRAMMAR_LENGTH}",
            limit=MAX_GRAMMAR_LENGTH,
            field="constraint",
            hint="move lists of words to a Choice",
        )
    parser = _Parser(text)
    bodies = parser.rules()
    for name, position in parser.called_at.items():
        if name not in bodies:
            raise refused(
                InvalidConstraintError, text, position, f"the rule {name!r} is not defined"
            )
    if root not in bodies:
        known = ", ".join(sorted(bodies)[:10])
        raise InvalidConstraintError(
            f"the grammar has no rule {root!r} to start with",
            hint=f"define it, or start with one of {known}" if known else "define it",
        )
    return ContextFreeGrammar(bodies, root)


class _Parser:
    """Recursive descent over the tokens; each method begins at the token ``_here``.

    It stops at the first token after what it has read. The last token, "end", is never read, so
    there is always one. After an error the parser is unusable.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens_of(text))
        self._at = 0
        self._depth = 0
        """The number of open parentheses and repeats."""
        self.called_at: dict[str, int] = {}
        """Where each rule is first called."""

    def rules(self) -> dict[str, Body]:
        """Return the bodies of all rules, by name; called rules may be missing (``called_at``)."""
        bodies: dict[str, Body] = {}
        while self._here.kind != "end":
            name = self._take("name", "a rule is defined as NAME ::= …")
            if name.text in bodies:
                raise self._invalid(name, f"the rule {name.text!r} is defined twice")
            self._refuse_attributes()
            self._take("defined", "a rule is defined as NAME ::= …")
            bodies[name.text] = self._choice()
            if self._here.kind == "ahead":
                self._skip_ahead()
        return bodies

    def _choice(self) -> Body:
        """Sequences separated by bars; a single one is returned as itself."""
        options = [self._sequence()]
        while self._here.kind == "|":
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self) -> Body:
        parts: list[Body] = []
        while (item := self._item()) is not None:
            parts.append(self._repeated(item))
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _item(self) -> Body | None:
        """Return what stands here, ``None`` if the sequence ends."""
        token = self._here
        match token.kind:
            case "literal":
                body: Body = Terminal(literal_of(self._text, token))
            case "class":
                body = Terminal(class_of(self._text, token))
            case ".":
                body = Terminal(Chars(ANY))
            case "name":
                if self._begins_rule():
                    return None
                self.called_at.setdefault(token.text, token.position)
                body = Call(token.text)
            case "(":
                return self._group()
            case "*" | "+" | "?" | "bounds":
                raise self._invalid(token, f"nothing stands before {token.text} to repeat")
            case _:
                return None
        self._at += 1
        return body

    def _begins_rule(self) -> bool:
        """Return whether the name here begins the next rule: rules have no sign at their end.

        It also does with a class between the name and ``::=``, which ``rules`` refuses as an
        attribute. ``_skip_ahead`` calls this at other tokens too, but not at "end", as the token
        after is read.
        """
        following = self._tokens[self._at + 1]
        if following.kind == "class":
            following = self._tokens[self._at + 2]
        return following.kind == "defined"

    def _group(self) -> Body:
        """Return the body between the parenthesis here and the one that closes it."""
        opening = self._here
        self._enter()
        self._at += 1
        body = self._choice()
        # A name that is not part of the body begins the next rule.
        if self._here.kind in ("end", "name"):
            raise self._invalid(opening, "this ( is not closed")
        self._take(")", "expected )")
        self._depth -= 1
        return body

    def _repeated(self, item: Body) -> Body:
        """Return the item with all the repeats after it: ``x+?`` repeats what ``x+`` is."""
        stacked = 0
        while (token := self._here).kind in (*_SIGNS, "bounds"):
            stacked += 1
            self._enter()
            item = Repetition(item, *(_SIGNS.get(token.kind) or self._bounds(token)))
            self._at += 1
        self._depth -= stacked
        return item

    def _bounds(self, token: Token) -> tuple[int, int | None]:
        """Return the bounds that a token such as ``{2,3}`` writes; ``None`` for no upper one.

        Raises LimitExceededError past MAX_BOUND, and InvalidConstraintError if they cross.
        """
        numbers = re.findall(r"\d+", token.text)
        if any(len(number) > len(str(MAX_BOUND)) or int(number) > MAX_BOUND for number in numbers):
            raise self._too_large(
                f"a bound is above {MAX_BOUND}", MAX_BOUND, "lower it, or repeat without a bound"
            )
        low = int(numbers[0])
        if "," not in token.text:
            return low, low
        high = int(numbers[1]) if len(numbers) > 1 else None
        if high is not None and high < low:
            raise self._invalid(token, f"at least {low} is more than at most {high}")
        return low, high

    def _skip_ahead(self) -> None:
        """Read a look-ahead at the end of a rule, and drop it; its rules must be defined."""
        # A true assertion only says what follows anyway; it serves to speed other programs up.
        opening = self._here
        self._at += 1
        self._choice()
        self._take(")", "expected )")
        if not (self._here.kind == "end" or self._begins_rule()):
            raise self._invalid(opening, "a look-ahead stands at the end of its rule")

    def _refuse_attributes(self) -> None:
        """Raise UnsupportedFeatureError for an attribute, such as ``[a]``, after a rule's name."""
        if self._here.kind == "class":
            raise refused(
                UnsupportedFeatureError, self._text, self._here.position,
                "an attribute of a rule is not supported", "leave it out",
            )  # fmt: skip

    def _enter(self) -> None:
        """Open a parenthesis or a repeat; the caller reduces ``_depth`` again at its end."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._too_large(
                f"the rule nests deeper than {MAX_DEPTH}",
                MAX_DEPTH,
                "give what is inside a name of its own",
            )

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str, expected: str) -> Token:
        """Read the token here, which must be of the kind; ``expected`` is for the error."""
        token = self._here
        if token.kind != kind:
            raise self._invalid(token, f"unexpected {token.text[:20]}: {expected}")
        self._at += 1
        return token

    def _invalid(self, token: Token, what: str) -> ConstraintError:
        return refused(InvalidConstraintError, self._text, token.position, what)

    def _too_large(self, what: str, limit: int, hint: str) -> LimitExceededError:
        """Return the error for something past a limit here, with line, column and a caret."""
        return LimitExceededError(
            SourcePosition(self._text, self._here.position).message(what),
            limit=limit,
            field="constraint",
            hint=hint,
        )
