"""A grammar that is read, what it defines, and the full names of its definitions.

Something imported is called by the name of its grammar, two underscores, and its own name, unless
it is imported by name. So names of different grammars never coincide. Lark does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from guided.errors import ConstraintError, InvalidConstraintError, LimitExceededError
from guided.grammar.lark.syntax import Alternatives, Name, Repeated, Series, Tree, Use
from guided.spec.source_position import SourcePosition

__all__ = ["Definition", "Source", "Written", "check_length", "uses_in"]

_MAX_IMPORTS: Final = 20
"""Grammars that import each other, one inside another."""


_MAX_LENGTH: Final = 200_000
"""Characters of a grammar, and of each that it imports."""


def check_length(text: str) -> None:
    """Raise LimitExceededError if the text of a grammar is too long."""
    if len(text) > _MAX_LENGTH:
        raise LimitExceededError(
            f"the grammar has {len(text)} characters, more than {_MAX_LENGTH}",
            limit=_MAX_LENGTH,
            field="constraint",
            hint="move parts of it to grammars that it imports, and lists of words to a Choice",
        )


class Source:
    """A grammar that is read, and the full names of its definitions.

    ``prefix`` is the name of the grammar, with ``__`` for its dots, and ``aliases`` are what the
    ``importer`` calls the names that it imports; the grammar that was given has none of the three.
    ``definitions`` are entered while it is read, and not changed afterwards. Sources are keys by
    identity: one grammar that is imported twice is two. Raises LimitExceededError if grammars
    import each other too deeply.
    """

    __slots__ = ("_aliases", "_depth", "_importer", "_prefix", "definitions", "text")

    def __init__(
        self,
        text: str,
        importer: Source | None = None,
        prefix: str = "",
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.text: Final = text
        self.definitions: Final[dict[str, Definition]] = {}
        """By full name, including what it imports."""
        self._importer: Final = importer
        self._prefix: Final = prefix
        self._aliases: Final = aliases or {}
        self._depth: Final[int] = 0 if importer is None else importer._depth + 1
        if self._depth > _MAX_IMPORTS:
            raise LimitExceededError(
                f"grammars import each other more than {_MAX_IMPORTS} deep",
                limit=_MAX_IMPORTS,
                field="constraint",
                hint="look for grammars that import themselves through others",
            )

    @property
    def is_imported(self) -> bool:
        """Whether it is not the grammar that was given."""
        return self._importer is not None

    def full_name(self, name: str) -> str:
        """Return what a name of this grammar is called in the grammar that was given.

        The name is first changed to what the importer calls it, by its alias or with the prefix
        (after the mark ``_``, which means that a rule is inlined), and then by the importer's own
        importer, and so on.
        """
        if self._importer is None:
            return name
        alias = self._aliases.get(name)
        if alias is None:
            mark, bare = ("_", name[1:]) if name.startswith("_") else ("", name)
            alias = f"{mark}{self._prefix}__{bare}"
        return self._importer.full_name(alias)

    def error(
        self,
        position: int,
        what: str,
        kind: type[ConstraintError] = InvalidConstraintError,
        hint: str | None = None,
    ) -> ConstraintError:
        """Return an error with line, column and a caret, which the caller raises.

        Its ``position`` is that in the text that was given; errors in imports have none.
        """
        message = SourcePosition(self.text, position).message(what)
        if not self.is_imported:
            return kind(message, position=position, hint=hint)
        return kind(f"in the grammar {self._prefix.replace('__', '.')}: {message}", hint=hint)


class Written(NamedTuple):
    """A body, with the grammar whose names it uses."""

    tree: Tree
    source: Source


class Definition:
    """A rule, a template or a terminal; the ``name`` and the ``parameters`` are full names.

    ``source`` is the grammar that it stands in, and ``position`` a place there, for errors. Equal
    only to itself: what is made from terminals is kept by their definitions.
    """

    __slots__ = ("bodies", "is_terminal", "name", "parameters", "position", "source")

    def __init__(self, name: Name, parameters: tuple[str, ...], source: Source) -> None:
        self.name: Final = source.full_name(name.text)
        self.is_terminal: Final = name.is_terminal
        self.parameters: Final = parameters
        self.source: Final = source
        self.position: Final = name.position
        self.bodies: Final[list[Written]] = []
        """Any of these; empty if it is only declared. ``%extend`` adds to them while grammars are
        read, and nothing changes them afterwards."""


def uses_in(tree: Tree) -> Iterator[tuple[Name, int]]:
    """Yield the names in a tree, each with the number of its arguments; in no order.

    A name that stands alone has 0, even a template that is passed as an argument.
    """
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        match part:
            case Name():
                yield part, 0
            case Use(template, arguments):
                yield template, len(arguments)
                waiting += arguments
            case Series(parts):
                waiting += parts
            case Alternatives(options):
                waiting += options
            case Repeated(item):
                waiting.append(item)
