"""One Lark grammar, the root or an imported one: its text, its definitions, and their full names.

The full name of an imported definition is the name of its grammar, two underscores, and its own
name, except where the import names it. So names of different grammars never clash, as in Lark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from guided.errors import ConstraintError, InvalidConstraintError, LimitExceededError
from guided.grammar.lark.syntax import (
    Alternatives,
    Common,
    Complement,
    Name,
    Repeated,
    Series,
    Shortest,
    TemplateUse,
    Tree,
)
from guided.runtime.closest import closest
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["Definition", "MissingImport", "ScopedBody", "Source", "check_length", "references_in"]

_MAX_IMPORTS: Final = 20
"""How deep imports may nest."""


_MAX_LENGTH: Final = 200_000
"""The most characters of a grammar, and of each one that it imports."""
_CHARACTERS_PER_UNIT: Final = 16
"""Characters of a full name per unit of work: a long prefix of many names takes much memory."""


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
    """A grammar, the root or an imported one, as the scope of its names.

    ``importer`` is the grammar that imports it, ``prefix`` its name with ``__`` for the dots, and
    ``aliases`` the names that the importer gives to imported ones; the root grammar has none of
    these. ``definitions`` are added while it is read and then not changed. Compared by identity: a
    grammar that is imported twice is two sources. Raises LimitExceededError if imports nest too
    deep.
    """

    __slots__ = (
        *("_aliases", "_depth", "_imported", "_importer", "_prefix"),
        *("definitions", "missing", "text"),
    )

    def __init__(
        self,
        text: str,
        importer: Source | None = None,
        prefix: str = "",
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.text: Final = text
        self.definitions: Final[dict[str, Definition]] = {}
        """By full name, with those that it imports."""
        self.missing: Final[dict[str, MissingImport]] = {}
        """Imports of what the other grammar does not define, by the name here."""
        self._imported: Final[list[Source]] = []
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
        if importer is not None:
            importer._imported.append(self)

    def release(self) -> None:
        """Let go of all definitions, which refer back here, and of those of imported grammars."""
        for each in self._imported:
            each.release()
        self._imported.clear()
        self.definitions.clear()
        self.missing.clear()

    @property
    def is_imported(self) -> bool:
        """Whether it is not the root grammar."""
        return self._importer is not None

    def full_name(self, name: str) -> str:
        """Return the full name of a name: what it is called in the root grammar.

        It becomes its alias, or gets the prefix (after a leading ``_``, which means that a rule is
        inlined); then the importer does the same for its own importer, and so on.
        """
        if self._importer is None:
            return name
        alias = self._aliases.get(name)
        if alias is None:
            mark, bare = ("_", name[1:]) if name.startswith("_") else ("", name)
            spend((len(self._prefix) + len(bare)) // _CHARACTERS_PER_UNIT)
            alias = f"{mark}{self._prefix}__{bare}"
        return self._importer.full_name(alias)

    def undefined(self, name: Name) -> ConstraintError:
        """Return the error for a name without a definition, at its import if there is one."""
        what = "terminal" if name.is_terminal else "rule"
        missing = self.missing.get(name.text)
        if missing is None:
            return self.error(name.position, f"the {what} {name.text!r} is not defined")
        position, wanted, grammar = missing
        own = [each.own_name for each in grammar.definitions.values() if each.source is grammar]
        close = closest(wanted, own)
        return self.error(
            position,
            f"the grammar {grammar._dotted!r} does not define {wanted!r}",
            hint=None if close is None else f"it defines {close}",
        )

    @property
    def _dotted(self) -> str:
        """The name by which it is imported."""
        return self._prefix.replace("__", ".")

    def error(
        self,
        position: int,
        what: str,
        kind: type[ConstraintError] = InvalidConstraintError,
        hint: str | None = None,
    ) -> ConstraintError:
        """Return an error of type ``kind`` with line, column and a caret; does not raise it.

        Errors in imported grammars have no ``position``, as that is one in the root grammar.
        """
        message = SourcePosition(self.text, position).message(what)
        if not self.is_imported:
            return kind(message, position=position, hint=hint)
        return kind(f"in the grammar {self._dotted}: {message}", hint=hint)

    def place(self, position: int) -> str:
        """Return line and column of a position, and the name of the grammar if it is imported."""
        place = SourcePosition(self.text, position).place
        return f"{place} of {self._dotted!r}" if self.is_imported else place


class MissingImport(NamedTuple):
    """An import of ``name``, at ``position``, which ``grammar`` does not define."""

    position: int
    name: str
    grammar: Source


class ScopedBody(NamedTuple):
    """A body, and the grammar in whose scope its names are."""

    tree: Tree
    source: Source


class Definition:
    """A rule, a template or a terminal; ``name`` and ``parameters`` are full names.

    ``source`` is the grammar that defines it, and ``position`` that of the name there, for errors.
    Compared by identity, so that it can be the key of a cache.
    """

    __slots__ = ("bodies", "is_terminal", "name", "own_name", "parameters", "position", "source")

    def __init__(self, name: Name, parameters: tuple[str, ...], source: Source) -> None:
        self.name: Final = source.full_name(name.text)
        self.own_name: Final = name.text
        """The name in ``source``, which an import may have replaced by another one."""
        self.is_terminal: Final = name.is_terminal
        self.parameters: Final = parameters
        self.source: Final = source
        self.position: Final = name.position
        self.bodies: Final[list[ScopedBody]] = []
        """The alternatives; empty if it is only declared. ``%extend`` adds to them while grammars
        are read; not changed afterwards."""


def references_in(tree: Tree) -> Iterator[tuple[Name, int]]:
    """Yield the names in a tree, in no order, each with the number of its arguments.

    0 for a name without arguments, also for a template that is itself passed as an argument.
    """
    worklist = [tree]
    while worklist:
        part = worklist.pop()
        match part:
            case Name():
                yield part, 0
            case TemplateUse(template, arguments):
                yield template, len(arguments)
                worklist += arguments
            case Series(parts) | Common(parts):
                worklist += parts
            case Alternatives(options):
                worklist += options
            case Repeated(item) | Complement(item) | Shortest(item):
                worklist.append(item)
