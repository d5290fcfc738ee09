"""Constraints on an answer: schemas, grammars, patterns and lists of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from guided.errors import InvalidConstraintError
from guided.spec.json_options import JsonOptions, check_options
from guided.spec.library import read_grammar
from guided.spec.option import named_pairs, sorted_by_name, word_of
from guided.spec.structure import Structure, check_nesting, digest_of

__all__ = [
    "INLINE_SCHEMA",
    "Choice",
    "Ebnf",
    "JsonSchema",
    "Lark",
    "Regex",
    "RegexDialect",
    "with_json_options",
]

INLINE_SCHEMA: Final = "%json"
"""What stands before a schema in a grammar in Lark's format."""
_FLAGS: Final = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "x": re.VERBOSE,
}
"""The flags of Python's patterns, by the letters that set them in a pattern's text."""


@dataclass(frozen=True, slots=True)
class JsonSchema(Structure):
    """A JSON Schema as text, so that the order of its properties is the caller's."""

    text: str
    options: JsonOptions = field(default_factory=JsonOptions)
    documents: tuple[tuple[str, str], ...] = ()
    """Other schemas that it may refer to: URI and text of each, ordered by URI.

    Nothing is ever fetched.
    """

    def __post_init__(self) -> None:
        _check_text(self.text, "schema", "pass json.dumps(schema), or a type as response_model")
        check_options(self.options)
        documents = sorted_by_name(self.documents, "two documents are given for the URI {!r}")
        object.__setattr__(self, "documents", documents)

    def digest(self) -> str:
        return digest_of("json_schema", (self.options.told(), self.documents), self.text)


@dataclass(frozen=True, slots=True)
class Lark(Structure):
    """A context-free grammar in Lark's own format.

    The language is the context-free one over the languages of its terminals: all texts that can be
    cut into terminals such that some derivation reads them. Priorities do not affect it.
    """

    text: str
    start: str = "start"
    """The rule that the whole answer must match."""
    imports: tuple[tuple[str, str], ...] = ()
    """Grammars that it may import besides Lark's own: dotted name and text of each.

    Nothing is read from disk.
    """
    holes: tuple[tuple[str, Structure], ...] = ()
    """The constraints that fill terminals it declares: name and constraint of each."""
    json_options: JsonOptions = field(default_factory=JsonOptions)
    """How the JSON of its schemas, ``%json {...}``, is written."""

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(
            self,
            text: str,
            start: str = "start",
            imports: tuple[tuple[str, str], ...] = (),
            holes: Mapping[str, Structure] | Iterable[tuple[str, Structure]] = (),
            json_options: JsonOptions = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_text(self.text, "grammar", "pass its text, not the file")
        _check_text(self.start, "start rule", "pass its name")
        given = named_pairs(self.holes, "holes")
        for name, filling in given:
            if not isinstance(filling, Structure):
                raise InvalidConstraintError(
                    f"what fills {name!r} is {type(filling).__name__}, no constraint",
                    hint="a fixed text is written guided.Text(...)",
                )
        holes = sorted_by_name(given, "two constraints are given for the name {!r}")
        object.__setattr__(self, "holes", holes)
        check_nesting(self)
        imports = named_pairs(self.imports, "imports")
        for name, text in imports:
            if not isinstance(text, str):
                raise InvalidConstraintError(f"the grammar {name!r} is no text")
        ordered = sorted_by_name(imports, "two grammars are given for the name {!r}")
        object.__setattr__(self, "imports", ordered)
        check_options(self.json_options)
        if self.json_options != JsonOptions() and not self.has_schemas:
            raise InvalidConstraintError(
                "json_options are about schemas in a grammar, and there is none",
                hint=f"leave them out, or write a schema as {INLINE_SCHEMA} {{...}}",
            )

    @classmethod
    def named(cls, name: str) -> Lark:
        """Return a library grammar, e.g. ``Lark.named("sql_select")``; see ``grammar_names``.

        Raises InvalidConstraintError if the library has no grammar of that name.
        """
        return cls(read_grammar(name).text)

    @property
    def has_schemas(self) -> bool:
        """Whether it has a schema in it; one in a comment or in quotes counts, too."""
        return any(INLINE_SCHEMA in text for text in (self.text, *dict(self.imports).values()))

    def inner(self) -> tuple[Structure, ...]:
        return tuple(filling for _, filling in self.holes)

    def digest_over(self, inner: list[str]) -> str:
        holes = [(name, digest) for (name, _), digest in zip(self.holes, inner, strict=True)]
        told = self.json_options.told()
        parts = (self.start, self.imports, holes, *([told] if told else []))
        return digest_of("lark", parts, self.text)


def with_json_options(constraint: Structure, options: JsonOptions | None) -> Structure | None:
    """Return a constraint with options given beside it; ``None`` if they do not go with it.

    They go with the schemas of a ``Lark`` that has no options of its own. Default ones mean none.
    """
    if options in (None, JsonOptions()):
        return constraint
    if not isinstance(constraint, Lark) or not constraint.has_schemas:
        return None
    is_open = constraint.json_options == JsonOptions()
    return replace(constraint, json_options=options) if is_open else None


class RegexDialect(StrEnum):
    """The dialect of a regular expression."""

    PYTHON = "python"
    """That of the module ``re``."""
    ECMA = "ecma"
    """That of ECMA-262 in Unicode mode."""


@dataclass(frozen=True, slots=True)
class Regex(Structure):
    """A regular expression that the whole answer must match.

    A compiled pattern is taken with its flags written into it: ``re.compile("a", re.I)`` is
    ``"(?i)a"``.
    """

    pattern: str
    dialect: RegexDialect = RegexDialect.PYTHON

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(
            self,
            pattern: str | re.Pattern[str],
            dialect: RegexDialect | Literal["python", "ecma"] = RegexDialect.PYTHON,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "dialect", word_of(RegexDialect, self.dialect, "dialect", "regex"))
        given: object = self.pattern
        if isinstance(given, re.Pattern):
            if self.dialect is not RegexDialect.PYTHON:
                raise InvalidConstraintError(
                    f"{given!r} is in Python's dialect", hint="pass a string, or leave dialect out"
                )
            _check_text(given.pattern, "pattern", "compile a string")
            letters = "".join(letter for letter, flag in _FLAGS.items() if given.flags & flag)
            flags = f"(?{letters})" if letters else ""
            object.__setattr__(self, "pattern", f"{flags}{given.pattern}")
        _check_text(self.pattern, "pattern", "pass its text, or re.compile(...)")

    def digest(self) -> str:
        return digest_of("regex", (self.pattern, self.dialect))


@dataclass(frozen=True, slots=True)
class Ebnf(Structure):
    """A context-free grammar in the format of llama.cpp (GBNF) and xgrammar."""

    text: str
    root: str = "root"
    """The rule that the whole answer must match."""

    def __post_init__(self) -> None:
        _check_text(self.text, "grammar", "pass its text, not the file")
        _check_text(self.root, "root rule", "pass its name")

    def digest(self) -> str:
        return digest_of("ebnf", (self.text, self.root))


@dataclass(frozen=True, slots=True)
class Choice(Structure):
    """One of several texts."""

    options: tuple[str, ...]

    if TYPE_CHECKING:
        # Arguments may have wider types than the fields that store them.
        def __init__(self, options: Iterable[str]) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.options
        if isinstance(given, str):
            raise InvalidConstraintError(
                f"the options are one text, {given[:20]!r}", hint="pass a list of texts"
            )
        options = tuple(self.options)
        for option in options:
            if not isinstance(option, str):
                raise InvalidConstraintError(f"the option {option!r} is no text")
        if not options:
            raise InvalidConstraintError("there are no options to choose from")
        object.__setattr__(self, "options", options)

    def digest(self) -> str:
        return digest_of("choice", self.options)


def _check_text(given: object, what: str, hint: str) -> None:
    """Raise InvalidConstraintError unless what a constraint is written in is a string."""
    if not isinstance(given, str):
        raise InvalidConstraintError(f"the {what} {given!r:.80} is no string", hint=hint)
