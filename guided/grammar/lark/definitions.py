"""What a grammar defines, with what it imports from others."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from guided.grammar.lark.length import check_length
from guided.grammar.lark.parser import parse_lark
from guided.grammar.lark.references import check_names, check_terminals
from guided.grammar.lark.source import Definition, Source, Written, uses_in
from guided.grammar.lark.syntax import Declare, Define, Ignore, Import, Statement
from guided.runtime.fuel import spend

__all__ = ["Definitions", "definitions_of"]


class Definitions(NamedTuple):
    """All that a grammar defines."""

    source: Source
    ignored: tuple[Ignore, ...]

    @property
    def named(self) -> Mapping[str, Definition]:
        """By full name."""
        return self.source.definitions


def definitions_of(text: str, imports: Mapping[str, str]) -> Definitions:
    """What a grammar defines; ``imports`` are the texts of others, by their dotted names.

    Raises InvalidConstraintError or LimitExceededError, with the place.
    """
    for each in (text, *imports.values()):
        check_length(each)
    source = Source(text)
    statements = parse_lark(text)
    _read(source, statements, imports)
    for definition in source.definitions.values():
        check_names(definition, source.definitions)
    return Definitions(source, tuple([each for each in statements if isinstance(each, Ignore)]))


def _read(source: Source, statements: list[Statement], imports: Mapping[str, str]) -> None:
    """Enter what the statements of a grammar define."""
    asked: dict[tuple[str, ...], dict[str, str]] = {}
    places: dict[tuple[str, ...], int] = {}
    for statement in statements:
        if isinstance(statement, Import):
            places.setdefault(statement.path, statement.position)
            asked.setdefault(statement.path, {}).update(statement.aliases)
    for path, aliases in asked.items():
        _import(source, path, aliases, places[path], imports)
    for statement in statements:
        spend(5)
        if isinstance(statement, Define):
            _define(source, statement)
        elif isinstance(statement, Declare):
            for name in statement.names:
                _add(source, Definition(name, (), source))
    # Ignored is what the grammar itself says, not what it imports.
    ignored = (
        [] if source.is_imported else [each.body for each in statements if isinstance(each, Ignore)]
    )
    check_terminals(source, ignored)


def _import(
    source: Source,
    path: tuple[str, ...],
    aliases: Mapping[str, str],
    position: int,
    imports: Mapping[str, str],
) -> None:
    """Enter what a grammar is asked for, and the rules that this leads to."""
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
    """The files of the grammars that come with Lark, by name."""
    spec = find_spec("lark")
    assert spec is not None and spec.origin is not None, "a dependency"
    folder = Path(spec.origin).parent.joinpath("grammars")
    return {file.stem: file for file in folder.glob("*.lark")}


@functools.cache
def _read_of_lark(name: str) -> tuple[str, list[Statement]]:
    text = _of_lark()[name].read_text("utf-8")
    return text, parse_lark(text)


def _define(source: Source, statement: Define) -> None:
    parameters = tuple(source.full_name(each.text) for each in statement.parameters)
    definition = Definition(statement.name, parameters, source)
    known = source.definitions.get(definition.name)
    place, name = definition.position, statement.name.text
    if not statement.how:
        _add(source, definition)
    elif known is None:
        raise source.error(place, f"{name!r} is not defined, so nothing can {statement.how} it")
    elif statement.how == "%override":
        source.definitions[definition.name] = definition
    elif not known.bodies:
        raise source.error(place, f"{name!r} is only declared, so nothing can extend it")
    elif known.parameters != parameters:
        raise source.error(place, f"{name!r} is extended with other parameters")
    else:
        definition = known
    definition.bodies.append(Written(statement.body, source))


def _add(source: Source, definition: Definition) -> None:
    if definition.name in source.definitions:
        what = f"{definition.name!r} is defined more than once"
        raise source.error(definition.position, what)
    source.definitions[definition.name] = definition


def _used(source: Source, names: Mapping[str, str]) -> list[Definition]:
    """The definitions of these names, and those of the rules that they lead to.

    What terminals lead to stays with their own grammar.
    """
    waiting = [source.full_name(name) for name in names]
    found = dict.fromkeys(waiting)
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
