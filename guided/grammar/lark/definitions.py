"""What a grammar defines, with what it imports from others, and whether its names are defined.

Terminals are written out where they are referred to, and so they grow: of forty that each refer
twice to the next one, the first would have more parts than any memory holds. So their sizes are
added up first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.lark.parser import parse_lark
from guided.grammar.lark.source import Definition, Source, Written, check_length, uses_in
from guided.grammar.lark.syntax import (
    Alternatives,
    Declare,
    Define,
    Ignore,
    Import,
    Name,
    Repeated,
    Series,
    SpecialName,
    Statement,
    Tree,
    Use,
)
from guided.runtime.fuel import spend

__all__ = ["Definitions", "definitions_of", "terminal_of"]


class Definitions(NamedTuple):
    """All that a grammar defines."""

    source: Source
    ignored: tuple[Ignore, ...]

    @property
    def named(self) -> Mapping[str, Definition]:
        """By full name."""
        return self.source.definitions


def definitions_of(text: str, imports: Mapping[str, str]) -> Definitions:
    """Return what a grammar defines; ``imports`` are the texts of others, by their dotted names.

    Grammars that come with Lark need not be in ``imports``. Raises InvalidConstraintError or
    UnsupportedFeatureError with the position, or LimitExceededError for a text that is too long, or
    nests or grows too much.
    """
    for each in (text, *imports.values()):
        check_length(each)
    source = Source(text)
    statements = parse_lark(text)
    _read(source, statements, imports)
    for definition in source.definitions.values():
        _check_names(definition, source.definitions)
    return Definitions(source, tuple([each for each in statements if isinstance(each, Ignore)]))


def _read(source: Source, statements: list[Statement], imports: Mapping[str, str]) -> None:
    """Enter what the statements of a grammar define, and what it imports, into ``source``.

    Recursive where an imported grammar imports others, as deep as ``Source`` allows.
    """
    # By the path of a grammar the names imported from it, and where it is first imported.
    asked: dict[tuple[str, ...], dict[str, str]] = {}
    positions: dict[tuple[str, ...], int] = {}
    for statement in statements:
        if isinstance(statement, Import):
            positions.setdefault(statement.path, statement.position)
            asked.setdefault(statement.path, {}).update(statement.aliases)
    # Imports come first: what the grammar itself defines may override or extend them.
    for path, aliases in asked.items():
        _import(source, path, aliases, positions[path], imports)
    for statement in statements:
        spend(5)
        if isinstance(statement, Define):
            _define(source, statement)
        elif isinstance(statement, Declare):
            for name in statement.names:
                _add(source, Definition(name, (), source))
    # Only the grammar itself says what is ignored, not what it imports.
    ignored = (
        [] if source.is_imported else [each.body for each in statements if isinstance(each, Ignore)]
    )
    _check_terminals(source, ignored)


def _import(
    source: Source,
    path: tuple[str, ...],
    aliases: Mapping[str, str],
    position: int,
    imports: Mapping[str, str],
) -> None:
    """Enter the imported names of a grammar into ``source``, and the rules that these refer to.

    ``aliases`` are the imported names, with what they are called in ``source``. The text of the
    grammar is one of ``imports``, or comes with Lark. It is read again each time, so that extending
    what was imported changes no other grammar. A name that it does not define is left out, and
    refused where it is used.
    """
    name = ".".join(path)
    if name in imports:
        text, statements = imports[name], parse_lark(imports[name])
    elif name in _of_lark():
        text, statements = _read_of_lark(name)
    else:
        raise source.error(
            position,
            f"there is no grammar {name!r} to import",
            hint="pass its text along with the grammar",
        )
    inner = Source(text, source, "__".join(path), aliases)
    _read(inner, statements, imports)
    for definition in _used(inner, aliases):
        if definition.name in source.definitions:
            what = f"{definition.name!r} is imported, and defined already"
            raise source.error(position, what)
        source.definitions[definition.name] = definition


@functools.cache
def _of_lark() -> Mapping[str, Path]:
    """Return the files of the grammars that come with Lark, by name."""
    spec = find_spec("lark")
    assert spec is not None and spec.origin is not None, "a dependency"
    folder = Path(spec.origin).parent.joinpath("grammars")
    return {file.stem: file for file in folder.glob("*.lark")}


@functools.cache
def _read_of_lark(name: str) -> tuple[str, list[Statement]]:
    """Text and statements of a grammar that comes with Lark; kept, and so not to be changed."""
    text = _of_lark()[name].read_text("utf-8")
    return text, parse_lark(text)


def _define(source: Source, statement: Define) -> None:
    """Enter a definition, in place of an earlier one (%override) or as one more body (%extend).

    Raises InvalidConstraintError if the earlier one is missing, does not fit, or should not
    exist.
    """
    parameters = tuple(source.full_name(each.text) for each in statement.parameters)
    definition = Definition(statement.name, parameters, source)
    known = source.definitions.get(definition.name)
    position, name = definition.position, statement.name.text
    if not statement.how:
        _add(source, definition)
    elif known is None:
        raise source.error(position, f"{name!r} is not defined, so nothing can {statement.how} it")
    elif statement.how == "%override":
        source.definitions[definition.name] = definition
    elif not known.bodies:
        raise source.error(position, f"{name!r} is only declared, so nothing can extend it")
    elif known.parameters != parameters:
        raise source.error(position, f"{name!r} is extended with other parameters")
    else:
        definition = known
    definition.bodies.append(Written(statement.body, source))


def _add(source: Source, definition: Definition) -> None:
    """Enter a definition; raises InvalidConstraintError if its name is already defined."""
    if definition.name in source.definitions:
        what = f"{definition.name!r} is defined more than once"
        raise source.error(definition.position, what)
    source.definitions[definition.name] = definition


def _used(source: Source, names: Mapping[str, str]) -> list[Definition]:
    """Return the definitions of these names, and what rules among them refer to, directly or not.

    What terminals refer to stays with their own grammar. Names without a definition are left out.
    """
    waiting = [source.full_name(name) for name in names]
    found = dict.fromkeys(waiting)
    # The list grows during the loop; ``found`` has all that were ever in it.
    for name in waiting:
        definition = source.definitions.get(name)
        spend(5)
        if definition is None or definition.is_terminal:
            continue
        parameters = set(definition.parameters)
        for tree, where in definition.bodies:
            for inner, _ in uses_in(tree):
                full = where.full_name(inner.text)
                if full not in found and full not in parameters:
                    found[full] = None
                    waiting.append(full)
    return [source.definitions[name] for name in waiting if name in source.definitions]


# --- what names refer to -------------------------------------------------------------------

_MAX_SIZE: Final = 100_000
"""Parts of a terminal that is written out."""
_MAX_DEPTH: Final = 150
"""Depth of brackets and of other terminals inside a terminal."""


def terminal_of(name: Name, source: Source) -> Definition:
    """Return the terminal that a name in a terminal stands for; it is that of its own grammar.

    Raises InvalidConstraintError for a rule and for an undefined name, and UnsupportedFeatureError
    for one that is only declared.
    """
    found = source.definitions.get(source.full_name(name.text))
    if not name.is_terminal:
        raise source.error(name.position, f"the rule {name.text!r} stands in a terminal")
    if found is None:
        raise source.error(name.position, f"the terminal {name.text!r} is not defined")
    if not found.bodies:
        raise source.error(
            name.position,
            f"{name.text!r}, which is declared only, is a part of a terminal",
            UnsupportedFeatureError,
            "use it in rules alone",
        )
    return found


def _check_terminals(source: Source, ignored: Iterable[Tree] = ()) -> None:
    """Raise LimitExceededError if a terminal is too large when it is written out.

    Raises InvalidConstraintError or UnsupportedFeatureError for one that cannot be written out.
    """
    extents = _Extents()
    for definition in source.definitions.values():
        if definition.is_terminal and definition.bodies:
            if len(definition.bodies) == 1 and _is_empty(definition.bodies[0].tree):
                what = f"the terminal {definition.name!r} is empty"
                raise definition.source.error(definition.position, what)
            extents.of_definition(definition, definition.source, definition.position)
    for tree in ignored:
        # A declared terminal has no text to look at; ``_Rules.ignored`` refuses it if it is a hole.
        if not (isinstance(tree, Name) and _is_declared(tree, source)):
            extents.of(tree, source)


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Series) and not tree.parts


def _is_declared(name: Name, source: Source) -> bool:
    """Return whether a name in the given grammar, where names are full, is only declared."""
    found = source.definitions.get(name.text)
    return found is not None and found.is_terminal and not found.bodies


def _check_names(definition: Definition, named: Mapping[str, Definition]) -> None:
    """Raise InvalidConstraintError for parameters that mean two things, and for undefined names.

    Also for templates with a wrong number of arguments; a template named alone may be an argument,
    which ``lower`` checks. ``_check_terminals`` checks names in terminals.
    """
    spend(5 + len(definition.parameters))
    parameters = set[str]()
    for parameter in definition.parameters:
        if parameter in named or parameter in parameters:
            what = "a rule" if parameter in named else "another one"
            raise definition.source.error(
                definition.position,
                f"the parameter {parameter!r} of {definition.name!r} is called like {what}",
            )
        parameters.add(parameter)
    for tree, source in () if definition.is_terminal else definition.bodies:
        for name, count in uses_in(tree):
            full = source.full_name(name.text)
            if full in parameters:
                continue
            known = named.get(full)
            if known is None or known.is_terminal != name.is_terminal:
                what = "terminal" if name.is_terminal else "rule"
                raise source.error(name.position, f"the {what} {name.text!r} is not defined")
            takes = len(known.parameters)
            if count and count != takes:
                what = f"the template {name.text!r} takes {takes} arguments, is given {count}"
                raise source.error(name.position, what)


class _Extent(NamedTuple):
    """How many parts there are, and how deep they nest."""

    size: int
    depth: int


class _Extents:
    """Adds up how large terminals are when they are written out, without writing them out.

    Each terminal is examined once. In all methods ``depth`` is the number of levels open above.
    After an error, which leaves terminals open, the object is unusable.
    """

    def __init__(self) -> None:
        self._known: dict[Definition, _Extent] = {}
        """The extents of terminals that were examined to their end."""
        self._open: set[Definition] = set()
        """Terminals being examined, each of them for another one."""

    def of(self, tree: Tree, source: Source, depth: int = 0) -> _Extent:
        """Return the extent of a part of a terminal; ``source`` is the grammar whose names it uses.

        Raises what ``of_definition`` and ``terminal_of`` raise, and UnsupportedFeatureError for a
        template and for a special token.
        """
        match tree:
            case Name():
                return self.of_definition(terminal_of(tree, source), source, tree.position, depth)
            case Series(parts):
                return self._of_all(parts, source, depth)
            case Alternatives(options):
                return self._of_all(options, source, depth)
            case Repeated(item):
                return self._of_all((item,), source, depth)
            case Use(template):
                raise source.error(
                    template.position,
                    f"the template {template.text!r} stands in a terminal",
                    UnsupportedFeatureError,
                )
            case SpecialName(text, position):
                raise source.error(
                    position,
                    f"the special token {text} stands in a terminal, which is text",
                    UnsupportedFeatureError,
                    "use it in rules",
                )
        return _Extent(1, 1)

    def _of_all(self, trees: Iterable[Tree], source: Source, depth: int) -> _Extent:
        return _around([self.of(tree, source, depth + 1) for tree in trees])

    def of_definition(
        self, definition: Definition, source: Source, position: int, depth: int = 0
    ) -> _Extent:
        """Return the extent of a terminal; ``source`` and ``position`` say where it is referred to.

        Raises InvalidConstraintError for a terminal that contains itself, and LimitExceededError.
        """
        known = self._known.get(definition)
        if known is not None:
            return known
        if definition in self._open:
            raise source.error(position, f"the terminal {definition.name!r} is made of itself")
        spend(5)
        # Before it is examined, as that is recursive and has no other limit.
        if depth > _MAX_DEPTH:
            raise _too_large(definition, _MAX_DEPTH, "parts inside of one another")
        self._open.add(definition)
        extent = _around([self.of(tree, where, depth + 1) for tree, where in definition.bodies])
        if extent.size > _MAX_SIZE:
            raise _too_large(definition, _MAX_SIZE, "parts")
        if extent.depth > _MAX_DEPTH:
            raise _too_large(definition, _MAX_DEPTH, "parts inside of one another")
        self._open.remove(definition)
        self._known[definition] = extent
        return extent


def _around(extents: list[_Extent]) -> _Extent:
    """Return the extent of a part that consists of parts with these extents."""
    return _Extent(
        1 + sum([each.size for each in extents]),
        1 + max([each.depth for each in extents], default=0),
    )


def _too_large(definition: Definition, limit: int, what: str) -> LimitExceededError:
    """Return the error for a terminal past a limit; ``what`` names what it has too many of."""
    return LimitExceededError(
        f"the terminal {definition.name!r} has more than {limit} {what} when it is written out",
        limit=limit,
        field="constraint",
        hint="let terminals refer to each other less often",
    )
