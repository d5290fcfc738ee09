"""Lark's own format, read by Lark's own loader into definitions of rules and terminals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from lark.exceptions import GrammarError, UnexpectedInput
from lark.load_grammar import Grammar, GrammarBuilder

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.frontends.lark.length import MAX_GRAMMAR_LENGTH, check_length
from guided.frontends.lark.sizes import check_terminal_sizes
from guided.frontends.place import Place

__all__ = [
    "MAX_DEPTH",
    "MAX_GRAMMAR_LENGTH",
    "Definitions",
    "as_ours",
    "load_definitions",
    "load_grammar",
]

MAX_DEPTH: Final = 100
"""Parentheses inside of one another."""
_NESTING: Final = re.compile(
    r""""(?:\\.|[^"\\\n])*(?:"|(?P<text>))|/(?!/)(?:(?s:\\.)|[^/\\])+(?:/|(?P<pattern>))"""
    r"|//[^\n]*|#[^\n]*|[][(){}:]"
)
_NAME: Final = "<grammar>/<text>"
"""Where Lark looks for what the text imports from beside itself: nowhere on a disk."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a grammar defines, as trees of Lark's loader."""

    rules: Mapping[str, tuple[tuple[str, ...], Any]]
    """By name the parameters, none but for templates, and the body."""
    terminals: Mapping[str, Any]
    """By name; references to other terminals are resolved."""
    ignored: tuple[str, ...]
    """Names of terminals."""
    filled: Mapping[str, str]
    """The holes, by the names of the terminals that they are."""


def load_grammar(text: str, imports: Mapping[str, str]) -> Grammar:
    """A grammar and what it imports, as Lark's loader has it; raises as ``load_definitions``."""
    for each in (text, *imports.values()):
        check_length(each)
        _check_depth(each)

    def find(_: str | None, path: str) -> tuple[str, str]:
        name = path.removesuffix(".lark").replace("\\", "/").replace("/", ".")
        if name in imports:
            return path, imports[name]
        if not files("lark").joinpath("grammars", *path.split("/")).is_file():
            raise InvalidConstraintError(
                f"there is no grammar {name!r} to import",
                hint="pass its text along with the grammar",
            )
        raise FileNotFoundError(path)  # Lark goes on to its own

    builder = GrammarBuilder(import_paths=[find])
    with as_ours(text):
        check_terminal_sizes(text, _NAME, imports)
        try:
            builder.load_grammar(text, _NAME)
        except AssertionError as error:
            raise UnsupportedFeatureError(
                "a terminal that is declared is a part of another one",
                hint="use it in rules alone",
            ) from error
        return builder.build()


@contextmanager
def as_ours(text: str) -> Iterator[None]:
    """Raise our errors for those of Lark about a grammar."""
    try:
        yield
    except GrammarError as error:
        raise _invalid(text, error) from error
    except UnexpectedInput as error:
        raise _unexpected(text, error) from error
    except TypeError as error:
        # Lark's search for a like mistake fails with some texts, while it handles what was found.
        found, at = None, error.__context__
        while at is not None:
            found = at if isinstance(at, UnexpectedInput) else found
            at = at.__context__
        if found is None:
            raise
        raise _unexpected(text, found) from error
    except RecursionError as error:
        raise LimitExceededError(
            "the grammar nests too deeply", limit=MAX_GRAMMAR_LENGTH, field="constraint"
        ) from error


def load_definitions(
    text: str, imports: Mapping[str, str], holes: Collection[str] = ()
) -> Definitions:
    """The definitions of a grammar.

    ``holes`` are terminals that it may declare, and leave to others.

    ``imports`` are grammars that it may import, by their dotted names, besides those that come with
    Lark. Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError.
    """
    grammar = load_grammar(text, imports)
    declared = [name for name, (tree, _) in grammar.term_defs if tree is None]
    filled = {name: _hole_of(text, name, holes) for name in declared}
    for name, _, tree, _ in grammar.rule_defs:
        if tree is None:
            raise _undefined(text, name)
    for name in holes:
        # What an imported grammar declares may be of no use here.
        if name not in filled.values() and not any(_declares(t, name) for t in imports.values()):
            raise InvalidConstraintError(
                f"the grammar declares no terminal {name!r} to be filled",
                hint=f"write %declare {name}, and use the name in its rules",
            )
    return Definitions(
        {name: (tuple(params), tree) for name, params, tree, _ in grammar.rule_defs},
        {name: tree for name, (tree, _) in grammar.term_defs if tree is not None},
        tuple(grammar.ignore),
        filled,
    )


def _declares(text: str, name: str) -> bool:
    """Whether a grammar declares a terminal; behind a backslash a line goes on."""
    lines = text.replace("\\\n", " ").splitlines()
    return any(name in line.partition("%declare")[2].split() for line in lines)


def _hole_of(text: str, declared: str, holes: Collection[str]) -> str:
    """The hole that a declared terminal is; in imported grammars more stands before its name."""
    parts = declared.split("__")
    for at in range(len(parts)):
        if (name := "__".join(parts[at:])) in holes:
            return name
    raise _undefined(text, declared)


def _undefined(text: str, declared: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        Place.of_name(text, declared).message(
            f"{declared!r} is declared and has no text, as for a post-lexer"
        ),
        hint="define what it stands for, or give the constraint that fills it as a terminal",
    )


def _unexpected(text: str, error: UnexpectedInput) -> InvalidConstraintError:
    message = f"{error}\n{error.get_context(text)}"
    return InvalidConstraintError(message.strip(), position=error.pos_in_stream)


def _check_depth(text: str) -> None:
    """Refuse what nests too deeply, or is not closed, before it is parsed: that takes long, too."""
    depth = 0
    for match in _NESTING.finditer(text):
        if match.lastgroup is not None:
            raise InvalidConstraintError(
                Place(text, match.start()).message(f"the {match.lastgroup} is not closed"),
                position=match.start(),
            )
        sign = match[0]
        depth = 0 if sign == ":" else depth + (sign in "([{") - (sign in ")]}")
        if depth > MAX_DEPTH:
            raise LimitExceededError(
                Place(text, match.start()).message(f"the rule nests deeper than {MAX_DEPTH}"),
                limit=MAX_DEPTH,
                field="constraint",
                hint="give what is inside a name of its own",
            )


def _invalid(text: str, error: GrammarError) -> InvalidConstraintError:
    """Lark's words, with the place that it speaks of where it names one only by name."""
    message = str(error).strip()
    if isinstance(error.__context__, UnexpectedInput):
        return InvalidConstraintError(message, position=error.__context__.pos_in_stream)
    named = re.search(r"'(\w+)'", message) or re.search(r"\b([A-Za-z_]\w*)\)?$", message)
    if named is None:
        return InvalidConstraintError(message)
    place = Place.of_name(text, named[1])
    return InvalidConstraintError(place.message(message), position=place.position)
