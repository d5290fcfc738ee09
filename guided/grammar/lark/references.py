"""What names refer to: rules to all that is defined, terminals to terminals that stay small.

Written out they grow: of forty that each refer twice to the next one, the first has as many parts
as nobody could read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.lark.source import Definition, Source, uses_in
from guided.grammar.lark.syntax import Alternatives, Name, Repeated, Series, Tree, Use
from guided.runtime.fuel import spend

__all__ = ["check_names", "check_terminals", "terminal_of"]

_MAX_SIZE: Final = 100_000
_MAX_DEPTH: Final = 150
"""Of brackets and of other terminals inside of a terminal."""


def terminal_of(name: Name, source: Source) -> Definition:
    """The terminal that a name in a terminal stands for; it is that of its own grammar."""
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


def check_terminals(source: Source, ignored: Iterable[Tree] = ()) -> None:
    """Raise LimitExceededError where a terminal is too large when it is written out.

    InvalidConstraintError or UnsupportedFeatureError for one that cannot be.
    """
    extents = _Extents()
    for definition in source.definitions.values():
        if definition.is_terminal and definition.bodies:
            if len(definition.bodies) == 1 and _is_empty(definition.bodies[0].tree):
                what = f"the terminal {definition.name!r} is empty"
                raise definition.source.error(definition.position, what)
            extents.of_definition(definition, definition.source, definition.position)
    for tree in ignored:
        # What a constraint fills is refused where that is known.
        if not (isinstance(tree, Name) and _is_declared(tree, source)):
            extents.of(tree, source)


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Series) and not tree.parts


def _is_declared(name: Name, source: Source) -> bool:
    found = source.definitions.get(name.text)
    return found is not None and found.is_terminal and not found.bodies


def check_names(definition: Definition, named: Mapping[str, Definition]) -> None:
    """Raise InvalidConstraintError for parameters that mean two things, and names that mean none.

    Those of terminals are ``check_terminals``'s.
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
    def __init__(self) -> None:
        self._known: dict[Definition, _Extent] = {}
        self._open: set[Definition] = set()
        """Terminals that are looked into, each of them for another one."""

    def of(self, tree: Tree, source: Source, depth: int = 0) -> _Extent:
        """The extent of a part of a terminal, that many levels deep in others."""
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
        return _Extent(1, 1)

    def _of_all(self, trees: Iterable[Tree], source: Source, depth: int) -> _Extent:
        return _around([self.of(tree, source, depth + 1) for tree in trees])

    def of_definition(
        self, definition: Definition, source: Source, position: int, depth: int = 0
    ) -> _Extent:
        """The extent of a terminal, and where it is referred to."""
        known = self._known.get(definition)
        if known is not None:
            return known
        if definition in self._open:
            raise source.error(position, f"the terminal {definition.name!r} is made of itself")
        spend(5)
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
    return _Extent(
        1 + sum([each.size for each in extents]),
        1 + max([each.depth for each in extents], default=0),
    )


def _too_large(definition: Definition, limit: int, what: str) -> LimitExceededError:
    return LimitExceededError(
        f"the terminal {definition.name!r} has more than {limit} {what} when it is written out",
        limit=limit,
        field="constraint",
        hint="let terminals refer to each other less often",
    )
