"""Reads the definitions of a Lark grammar and of its imports, and checks that names are defined.

References to terminals are expanded, which may grow exponentially: of forty terminals that each
refer to the next one twice, the first would not fit into any memory. So sizes are computed first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from guided.errors import ConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.grammar.lark.parser import parse_lark
from guided.grammar.lark.source import (
    Definition,
    MissingImport,
    ScopedBody,
    Source,
    check_length,
    references_in,
)
from guided.grammar.lark.syntax import (
    Alternatives,
    Common,
    Complement,
    Declare,
    Define,
    Ignore,
    Import,
    InlineSchema,
    Name,
    Repeated,
    Series,
    Shortest,
    SpecialName,
    Statement,
    TemplateUse,
    Tree,
)
from guided.runtime.work_budget import spend
from guided.spec.source_position import check_encodable

__all__ = ["Definitions", "read_definitions", "resolve_terminal"]


class Definitions(NamedTuple):
    """The definitions of a grammar, and its ``%ignore`` statements.

    Whoever reads them calls ``source.release`` in the end.
    """

    source: Source
    ignored: tuple[Ignore, ...]

    @property
    def by_name(self) -> Mapping[str, Definition]:
        """All definitions, by full name, with the imported ones."""
        return self.source.definitions


def read_definitions(text: str, imports: Mapping[str, str]) -> Definitions:
    """Return the definitions of a grammar; ``imports`` are texts of others, by dotted name.

    Grammars that come with Lark need not be in ``imports``. Raises InvalidConstraintError or
    UnsupportedFeatureError with the position, or LimitExceededError for a grammar that is too long,
    nests too deep, or grows too large when it is expanded.
    """
    for each in (text, *imports.values()):
        check_length(each)
        check_encodable(each)
    source = Source(text)
    try:
        statements = parse_lark(text)
        _read_statements(source, statements, imports)
        for definition in source.definitions.values():
            _check_names(definition, source.definitions)
    except BaseException:
        source.release()
        raise
    return Definitions(source, tuple([each for each in statements if isinstance(each, Ignore)]))


def _read_statements(
    source: Source, statements: list[Statement], imports: Mapping[str, str]
) -> None:
    """Add what the statements of a grammar define and import to ``source``.

    Recursive where an imported grammar imports others, as deep as ``Source`` allows.
    """
    imports_by_grammar: dict[tuple[str, ...], list[Import]] = {}
    for statement in statements:
        if isinstance(statement, Import):
            imports_by_grammar.setdefault(statement.path, []).append(statement)
    # Imports come first, as the grammar's own definitions may override or extend them.
    for path, asked in imports_by_grammar.items():
        _import(source, path, asked, imports)
    for statement in statements:
        spend(5)
        if isinstance(statement, Define):
            _define(source, statement)
        elif isinstance(statement, Declare):
            for name in statement.names:
                _add(source, Definition(name, (), source))
    # ``%ignore`` in imported grammars has no effect.
    ignored = (
        [] if source.is_imported else [each.body for each in statements if isinstance(each, Ignore)]
    )
    _check_terminals(source, ignored)


def _import(
    source: Source,
    path: tuple[str, ...],
    asked: Sequence[Import],
    imports: Mapping[str, str],
) -> None:
    """Add names imported from a grammar to ``source``, and the rules that they refer to.

    ``asked`` are all imports of this grammar, whose text is one of ``imports``, or comes with Lark.
    Definitions are made anew for each grammar that imports, as ``%extend`` may change them. A name
    that the grammar does not define is noted here, and refused if it is used.
    """
    name, position = ".".join(path), asked[0].position
    # The name in ``source`` of each imported name.
    aliases = {own: alias for each in asked for own, alias in each.aliases.items()}
    if name in imports:
        text, statements = imports[name], parse_lark(imports[name])
    elif name in _bundled_files():
        text, statements = _read_bundled(name)
    else:
        raise source.error(
            position,
            f"there is no grammar {name!r} to import",
            hint="pass its text along with the grammar",
        )
    inner = Source(text, source, "__".join(path), aliases)
    _read_statements(inner, statements, imports)
    for definition in _find_referenced(inner, aliases):
        if definition.name in source.definitions:
            what = f"{definition.name!r} is imported, and defined already"
            raise source.error(position, what)
        source.definitions[definition.name] = definition
    for each in asked:
        for own, alias in each.aliases.items():
            if inner.full_name(own) not in source.definitions:
                source.missing[alias] = MissingImport(each.position, own, inner)


@functools.cache
def _bundled_files() -> Mapping[str, Path]:
    """Return the files of the grammars that come with Lark, by grammar name."""
    spec = find_spec("lark")
    assert spec is not None and spec.origin is not None, "a dependency"
    folder = Path(spec.origin).parent.joinpath("grammars")
    return {file.stem: file for file in folder.glob("*.lark")}


@functools.cache
def _read_bundled(name: str) -> tuple[str, list[Statement]]:
    """Return text and statements of a grammar that comes with Lark; cached, not to be changed."""
    text = _bundled_files()[name].read_text("utf-8")
    return text, parse_lark(text)


def _define(source: Source, statement: Define) -> None:
    """Add a definition, replace an earlier one (%override) or add a body to it (%extend).

    As in Lark, an imported grammar's own terminals see what extends a definition, which changes the
    shared object, but not what overrides it, which is another in its place. Raises
    InvalidConstraintError if the earlier one is missing, does not fit, or should not exist.
    """
    parameters = tuple(source.full_name(each.text) for each in statement.parameters)
    definition = Definition(statement.name, parameters, source)
    earlier = source.definitions.get(definition.name)
    position, name = definition.position, statement.name.text
    if not statement.modifier:
        _add(source, definition)
    elif earlier is None:
        raise source.error(
            position, f"{name!r} is not defined, so nothing can {statement.modifier} it"
        )
    elif statement.modifier == "%override":
        source.definitions[definition.name] = definition
    elif not earlier.bodies:
        raise source.error(position, f"{name!r} is only declared, so nothing can extend it")
    elif earlier.parameters != parameters:
        # By full names, to which arguments are bound: those of an imported template are others.
        raise source.error(
            position, f"{name!r} is extended with other parameters, or is an imported template"
        )
    else:
        definition = earlier
    definition.bodies.append(ScopedBody(statement.body, source))


def _add(source: Source, definition: Definition) -> None:
    """Add a definition; raises InvalidConstraintError if its name is already defined."""
    if definition.name in source.definitions:
        what = f"{definition.name!r} is defined more than once"
        raise source.error(definition.position, what)
    source.definitions[definition.name] = definition


def _find_referenced(source: Source, names: Mapping[str, str]) -> list[Definition]:
    """Return the definitions of these names and those that rules among them reach by references.

    References of terminals are not followed: they are resolved in their own grammar. Names without
    a definition are left out.
    """
    worklist = [source.full_name(name) for name in names]
    found = dict.fromkeys(worklist)
    # The list grows during the loop; the keys of ``found`` are all names that were ever in it.
    for name in worklist:
        definition = source.definitions.get(name)
        spend(5)
        if definition is None or definition.is_terminal:
            continue
        parameters = set(definition.parameters)
        for tree, where in definition.bodies:
            for inner, _ in references_in(tree):
                full = where.full_name(inner.text)
                if full not in found and full not in parameters:
                    found[full] = None
                    worklist.append(full)
    return [source.definitions[name] for name in worklist if name in source.definitions]


# --- resolving names ------------------------------------------------------------------------

_MAX_SIZE: Final = 100_000
"""The most parts of a terminal with all references expanded."""
_MAX_DEPTH: Final = 150
"""How deep brackets and referenced terminals may nest in a terminal."""


def resolve_terminal(name: Name, source: Source) -> Definition:
    """Return the definition that a name inside a terminal of ``source`` refers to.

    Raises InvalidConstraintError for a rule and for an undefined name, and UnsupportedFeatureError
    for one that is only declared.
    """
    found = source.definitions.get(source.full_name(name.text))
    if not name.is_terminal:
        raise source.error(
            name.position,
            f"the rule {name.text!r} stands in a terminal",
            hint="write its name in capital letters; rules with lazy or suffix= are terminals, too",
        )
    if found is None:
        raise source.undefined(name)
    if not found.bodies:
        raise source.error(
            name.position,
            f"{name.text!r}, which is declared only, is a part of a terminal",
            UnsupportedFeatureError,
            "use it in rules alone",
        )
    return found


def _check_terminals(source: Source, ignored: Iterable[Tree] = ()) -> None:
    """Raise LimitExceededError if a terminal is too large with its references expanded.

    Raises InvalidConstraintError or UnsupportedFeatureError for one that cannot be expanded.
    """
    meter = _ExtentMeter()
    for definition in source.definitions.values():
        if definition.is_terminal and definition.bodies:
            if len(definition.bodies) == 1 and _is_empty(definition.bodies[0].tree):
                what = f"the terminal {definition.name!r} is empty"
                raise definition.source.error(definition.position, what)
            meter.measure_definition(definition, definition.source, definition.position)
        for tree, where in definition.bodies:
            # The body of such a rule is a terminal.
            if isinstance(tree, Shortest):
                _check_extent(meter.measure(tree, where), f"the rule {definition.name!r}")
    for tree in ignored:
        # A declared terminal has no body; ``lower._RuleLowering.lower_ignored`` refuses holes.
        if not (isinstance(tree, Name) and _is_declared(tree, source)):
            _check_extent(meter.measure(tree, source), "what %ignore names")


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Series) and not tree.parts


def _is_declared(name: Name, source: Source) -> bool:
    """Return whether a name is a terminal that is only declared; only for the root grammar."""
    found = source.definitions.get(name.text)
    return found is not None and found.is_terminal and not found.bodies


def _check_names(definition: Definition, by_name: Mapping[str, Definition]) -> None:
    """Raise InvalidConstraintError for undefined names and clashing parameters in a rule.

    Also for a wrong number of template arguments. A template named without arguments may itself be
    an argument, which ``lower`` checks. ``_check_terminals`` checks the names in terminals.
    """
    spend(5 + len(definition.parameters))
    parameters = set[str]()
    for parameter in definition.parameters:
        if parameter in by_name or parameter in parameters:
            what = "a rule" if parameter in by_name else "another one"
            raise definition.source.error(
                definition.position,
                f"the parameter {parameter!r} of {definition.name!r} is called like {what}",
            )
        parameters.add(parameter)
    for tree, source in () if definition.is_terminal else definition.bodies:
        for name, count in references_in(tree):
            full = source.full_name(name.text)
            if full in parameters:
                continue
            referenced = by_name.get(full)
            if referenced is None or referenced.is_terminal != name.is_terminal:
                raise source.undefined(name)
            takes = len(referenced.parameters)
            if count and count != takes:
                what = f"the template {name.text!r} takes {takes} arguments, is given {count}"
                raise source.error(name.position, what)


class _Extent(NamedTuple):
    """The size of a tree with its references expanded: its parts, and how deep they nest."""

    size: int
    depth: int


class _ExtentMeter:
    """Computes how large terminals are with references expanded, without expanding them.

    Each terminal is measured once. In all methods ``depth`` is the depth of the part in the
    outermost terminal. After an error, which leaves terminals open, the object is unusable.
    """

    def __init__(self) -> None:
        self._cache: dict[Definition, _Extent] = {}
        """The extents of terminals that were measured."""
        self._open: dict[Definition, None] = {}
        """Terminals being measured, one inside another, the outermost first: to find cycles."""

    def measure(self, tree: Tree, source: Source, depth: int = 0) -> _Extent:
        """Return the extent of a part of a terminal; its names are those of ``source``.

        The extent is compared with the limits by the caller, that of each terminal in it by
        ``measure_definition``. The parser bounds how deep brackets nest.

        Raises as ``measure_definition`` and ``resolve_terminal`` do, and UnsupportedFeatureError
        for a template, a special token and a schema.
        """
        match tree:
            case Name():
                return self.measure_definition(
                    resolve_terminal(tree, source), source, tree.position, depth
                )
            case Series(parts) | Common(parts):
                return self._measure_all(parts, source, depth)
            case Alternatives(options):
                return self._measure_all(options, source, depth)
            case Repeated(item) | Complement(item) | Shortest(item):
                return self._measure_all((item,), source, depth)
            case TemplateUse(template):
                raise source.error(
                    template.position,
                    f"the template {template.text!r} stands in a terminal",
                    UnsupportedFeatureError,
                )
            case SpecialName(text, position):
                raise _not_text_error(f"the special token {text}", source, position)
            case InlineSchema(_, position):
                raise _not_text_error("a schema", source, position)
        return _Extent(1, 1)

    def _measure_all(self, trees: Iterable[Tree], source: Source, depth: int) -> _Extent:
        return _enclosing_extent([self.measure(tree, source, depth + 1) for tree in trees])

    def measure_definition(
        self, definition: Definition, source: Source, position: int, depth: int = 0
    ) -> _Extent:
        """Return the extent of a terminal, referred to at ``position`` in ``source``.

        Raises InvalidConstraintError for a terminal that contains itself, and LimitExceededError.
        """
        extent = self._cache.get(definition)
        if extent is not None:
            return extent
        if definition in self._open:
            raise source.error(position, f"the terminal {definition.name!r} is made of itself")
        spend(5)
        # Checked before recursing, as nothing else limits the recursion through references.
        if depth > _MAX_DEPTH:
            outermost = next(iter(self._open), definition)
            raise _too_deep_error(_subject(outermost))
        self._open[definition] = None
        extent = _enclosing_extent(
            [self.measure(tree, where, depth + 1) for tree, where in definition.bodies]
        )
        _check_extent(extent, _subject(definition))
        del self._open[definition]
        self._cache[definition] = extent
        return extent


def _not_text_error(what: str, source: Source, position: int) -> ConstraintError:
    return source.error(
        position,
        f"{what} stands in a terminal, which is text",
        UnsupportedFeatureError,
        "use it in rules",
    )


def _enclosing_extent(extents: list[_Extent]) -> _Extent:
    """Return the extent of a node whose children have these extents."""
    return _Extent(
        1 + sum([each.size for each in extents]),
        1 + max([each.depth for each in extents], default=0),
    )


def _check_extent(extent: _Extent, subject: str) -> None:
    """Raise LimitExceededError for an extent past the limits; ``subject`` has it, in errors."""
    if extent.size > _MAX_SIZE:
        raise _limit_error(subject, _MAX_SIZE, "parts")
    if extent.depth > _MAX_DEPTH:
        raise _too_deep_error(subject)


def _subject(definition: Definition) -> str:
    return f"the terminal {definition.name!r}"


def _too_deep_error(subject: str) -> LimitExceededError:
    return _limit_error(subject, _MAX_DEPTH, "parts inside of one another")


def _limit_error(subject: str, limit: int, what: str) -> LimitExceededError:
    """Return the error for what is past a limit; ``what`` names what it has too many of."""
    return LimitExceededError(
        f"{subject} has more than {limit} {what} when it is written out",
        limit=limit,
        field="constraint",
        hint="let terminals refer to each other less often",
    )
