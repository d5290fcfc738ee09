"""Lowers Lark grammars to context-free ones.

The language is the context-free one over the languages of the terminals. Priorities, aliases and
the signs ``?``, ``!`` and ``_`` only say how Lark builds trees and which of several parses it
prefers, so they have no effect. See docs/decisions/0008-grammars-as-networks.md for where
Lark's own scanners accept fewer texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
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
from guided.grammar.lark.definitions import Definitions, read_definitions
from guided.grammar.lark.parser import parse_lark
from guided.grammar.lark.source import Definition, Source, check_length
from guided.grammar.lark.syntax import (
    Alternatives,
    Declare,
    InlineSchema,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    Shortest,
    SpecialName,
    TemplateUse,
    Tree,
)
from guided.grammar.lark.terminals import TerminalLowering
from guided.grammar.lark.tokens import tokenize
from guided.runtime.work_budget import spend

__all__ = ["MAX_RULES", "has_inline_schema", "lower_lark"]

MAX_RULES: Final = 20_000
"""The most rules, with those made for the uses of templates."""
_USE_MARK: Final = "#"
"""Separates a template's name and the number of its use in a rule's name; in no other name."""
_FillSchema: TypeAlias = Callable[[str, str], Body]
"""Returns the body for the text of a JSON Schema, and the name of its place, for errors."""


def lower_lark(
    text: str,
    start: str = "start",
    imports: Mapping[str, str] | None = None,
    holes: Mapping[str, Body] | None = None,
    fill_schema: _FillSchema | None = None,
) -> ContextFreeGrammar:
    """Return the context-free grammar of a Lark grammar.

    ``imports`` are the texts of grammars that it may import, by dotted name; those that come with
    Lark (``common``, ``unicode``, …) need not be among them. ``holes`` has by name the bodies of
    terminals that it or an import declares; the caller has to define the rules that these call.
    ``fill_schema`` returns the body of an inline schema; without it they are refused. Raises
    InvalidConstraintError or UnsupportedFeatureError, with line, column and caret where the
    position is known, or LimitExceededError.
    """
    imports, holes = imports or {}, holes or {}
    definitions = read_definitions(text, imports)
    try:
        _check_holes(holes, (text, *imports.values()))
        return _lower(definitions, start, holes, fill_schema)
    finally:
        definitions.source.release()


def has_inline_schema(text: str) -> bool:
    """Return whether a grammar has a schema in it, ``%json {…}``; raises what ``lower_lark`` does.

    One in a comment or in quotes is none.
    """
    check_length(text)
    return "%json" in text and any(token.kind == "json" for token in tokenize(text))


def _lower(
    definitions: Definitions,
    start: str,
    holes: Mapping[str, Body],
    fill_schema: _FillSchema | None,
) -> ContextFreeGrammar:
    """Compute ``lower_lark`` from definitions, which must not be released before."""
    by_name = definitions.by_name
    first = by_name.get(start)
    if first is None or first.is_terminal or first.parameters or not first.bodies:
        names = sorted(each.name for each in by_name.values() if not each.is_terminal)
        others = f", or start with one of {', '.join(names[:10])}" if names else ""
        raise InvalidConstraintError(
            f"the grammar has no rule {start!r} to start with", hint=f"define it{others}"
        )
    rules = _RuleLowering(by_name, _fill_declared(definitions, holes), fill_schema)
    return ContextFreeGrammar(rules.lower_rules(first), start, rules.lower_ignored(definitions))


def _check_holes(holes: Collection[str], texts: Iterable[str]) -> None:
    """Raise InvalidConstraintError for a hole that none of the grammars declares as a terminal."""
    missing = set(holes)
    for text in texts:
        if not missing:
            return
        # Imports of imports are searched too, also where the root grammar does not use them.
        for statement in parse_lark(text):
            if isinstance(statement, Declare):
                missing.difference_update([name.text for name in statement.names])
    if missing:
        name = min(missing)
        raise InvalidConstraintError(
            f"the grammar declares no terminal {name!r} to be filled",
            hint=f"write %declare {name}, and use the name in its rules",
        )


def _fill_declared(definitions: Definitions, holes: Mapping[str, Body]) -> dict[str, Body]:
    """Return the bodies that fill the terminals that are only declared, by full name.

    Raises UnsupportedFeatureError if there is no hole for one of them.
    """
    return {
        each.name: holes[_hole_name(each, holes)]
        for each in definitions.by_name.values()
        if not each.bodies
    }


def _hole_name(declared: Definition, holes: Collection[str]) -> str:
    """Return the name of the hole for a declared terminal.

    The full name of an imported terminal begins with the names of grammars, joined by ``__``. So
    its suffixes are tried, the longest first, and then its name in the grammar that declares it.
    Raises UnsupportedFeatureError if none is the name of a hole, and for a declared rule.
    """
    names = [declared.name]
    if declared.source.is_imported:
        parts = declared.name.split("__")
        names += ["__".join(parts[at:]) for at in range(1, len(parts))]
        names.append(declared.own_name)
    for name in names:
        if declared.is_terminal and name in holes:
            return name
    raise declared.source.error(
        declared.position,
        f"{declared.name!r} is declared and has no text, as for a post-lexer",
        UnsupportedFeatureError,
        "define what it stands for, or give the constraint that fills it as a terminal",
    )


class _RuleLowering:
    """Lowers the rules that are reachable from a start rule.

    A template is instantiated once for each list of arguments, as a separate rule (``name#3``). In
    all methods ``bindings`` has the argument for each parameter, by full name. A template that is
    itself an argument is passed as the ``Call`` of its name; only ``_resolve_rule`` reads such a
    call, which never becomes part of a body.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        holes: Mapping[str, Body],
        fill_schema: _FillSchema | None,
    ) -> None:
        self._definitions = definitions
        """All definitions by full name."""
        self._holes = holes
        """The bodies that fill declared terminals, by full name."""
        self._fill_schema = fill_schema
        self._terminals = TerminalLowering()
        self._bodies: dict[str, Body] = {}
        """The bodies of the rules that were lowered, by the name of the rule."""
        self._worklist: list[tuple[str, Definition, tuple[Body, ...]]] = []
        """Rules that were called and are still to be lowered: name, definition, arguments."""
        self._name_by_use: dict[tuple[str, tuple[Body, ...]], str] = {}
        """The name of each rule that was called, by its full name and arguments."""

    def lower_rules(self, start: Definition) -> Mapping[str, Body]:
        """Return the bodies of all rules reachable from the start, with templates instantiated."""
        self._call_rule(start, ())
        while self._worklist:
            name, definition, arguments = self._worklist.pop()
            bindings = dict(zip(definition.parameters, arguments, strict=True))
            options = [self._lower_body(*body, bindings) for body in definition.bodies]
            self._bodies[name] = options[0] if len(options) == 1 else Alternation(tuple(options))
        return self._bodies

    def lower_ignored(self, definitions: Definitions) -> tuple[Terminal, ...]:
        """Return the terminals of the ``%ignore`` statements.

        Raises UnsupportedFeatureError for a hole, and for a terminal that is only declared.
        """
        source, found = definitions.source, list[Terminal]()
        for each in definitions.ignored:
            if isinstance(each.body, Name) and each.body.text in self._holes:
                raise source.error(
                    each.body.position,
                    f"{each.body.text!r}, which a constraint fills, cannot be ignored",
                    UnsupportedFeatureError,
                    "use it in a rule",
                )
            found += self._terminals.lower_body(each.body, source, each.position)
        return tuple(found)

    def _call_rule(self, rule: Definition, arguments: tuple[Body, ...]) -> Call:
        """Return the call of a rule, or of a template with its arguments.

        The first call adds the rule to the worklist. Raises LimitExceededError past MAX_RULES: a
        template that uses itself with ever larger arguments has infinitely many instances.
        """
        key = (rule.name, arguments)
        name = self._name_by_use.get(key)
        if name is None:
            if len(self._name_by_use) >= MAX_RULES:
                raise LimitExceededError(
                    f"the grammar has more than {MAX_RULES} rules, uses of templates counted,"
                    f" at {rule.name!r}",
                    limit=MAX_RULES,
                    field="constraint",
                    hint="look for a template that uses itself with ever larger arguments",
                )
            name = f"{rule.name}{_USE_MARK}{len(self._name_by_use)}" if arguments else rule.name
            self._name_by_use[key] = name
            self._worklist.append((name, rule, arguments))
        return Call(name)

    def _lower_body(self, tree: Tree, source: Source, bindings: Mapping[str, Body]) -> Body:
        """Return the body of a part of a rule; its names are those of ``source``.

        Recursive, as deep as the parser lets brackets nest. Called rules go to the worklist.
        """
        spend(5)
        match tree:
            case Alternatives(options):
                return Alternation(
                    tuple([self._lower_body(each, source, bindings) for each in options])
                )
            case Series(parts):
                return Concatenation(
                    tuple([self._lower_body(each, source, bindings) for each in parts])
                )
            case Repeated(item, low, high):
                return Repetition(self._lower_body(item, source, bindings), low, high)
            case Literal() | Range():
                return _choice_of(self._terminals.lower_literal(tree, source))
            case SpecialName(text):
                return Special(text)
            case InlineSchema():
                return self._lower_schema(tree, source)
            case Shortest(_, position):
                return _choice_of(self._terminals.lower_body(tree, source, position))
            case Name():
                return self._lower_name(tree, source, bindings)
            case TemplateUse(template, arguments):
                bodies = tuple([self._lower_argument(each, source, bindings) for each in arguments])
                return self._call_rule(
                    self._resolve_rule(template, source, bindings, len(bodies)), bodies
                )
        raise AssertionError("the parser refuses & and ~ in rules")

    def _lower_schema(self, schema: InlineSchema, source: Source) -> Body:
        """Return what fills a schema; raises UnsupportedFeatureError where none may stand."""
        if self._fill_schema is None:
            raise source.error(
                schema.position,
                "a schema stands in a grammar that is for text alone",
                UnsupportedFeatureError,
                "write its texts as rules",
            )
        return self._fill_schema(schema.text, f"%json at {source.place(schema.position)}")

    def _lower_name(self, name: Name, source: Source, bindings: Mapping[str, Body]) -> Body:
        """Return the body for a name without arguments: a terminal, a parameter, or a rule.

        ``_resolve_rule`` refuses a parameter that is bound to a template, as it lacks arguments.
        ``definitions._check_names`` has checked that the name is defined.
        """
        full = source.full_name(name.text)
        if name.is_terminal:
            hole = self._holes.get(full)
            if hole is not None:
                return hole
            return _choice_of(self._terminals.lower(self._definitions[full]))
        body = bindings.get(full)
        if body is None or self._is_template(body):
            return self._call_rule(self._resolve_rule(name, source, bindings, 0), ())
        return body

    def _lower_argument(self, tree: Tree, source: Source, bindings: Mapping[str, Body]) -> Body:
        """Return the body of an argument; for a template the ``Call`` of its name, see above."""
        if isinstance(tree, Name) and not tree.is_terminal:
            full = source.full_name(tree.text)
            body = bindings.get(full, Call(full))
            if self._is_template(body):
                return body
        return self._lower_body(tree, source, bindings)

    def _is_template(self, body: Body) -> bool:
        """Return whether a body is the ``Call`` that ``_lower_argument`` passes for a template.

        Calls of instances of templates have other names, with a ``#``.
        """
        if not isinstance(body, Call):
            return False
        rule = self._definitions.get(body.rule)
        return rule is not None and bool(rule.parameters)

    def _resolve_rule(
        self, name: Name, source: Source, bindings: Mapping[str, Body], count: int
    ) -> Definition:
        """Return the rule or template that a name with ``count`` arguments refers to.

        The name may be a parameter that is bound to a template. Raises InvalidConstraintError if
        the rule takes a different number of arguments, or if a parameter that is bound to no
        template gets arguments.
        """
        full = source.full_name(name.text)
        body = bindings.get(full)
        rule = self._definitions.get(body.rule if isinstance(body, Call) else full)
        takes = 0 if rule is None else len(rule.parameters)
        if rule is None or takes != count:
            what = f"the template {name.text!r} takes {takes} arguments, is given {count}"
            raise source.error(name.position, what)
        return rule


def _choice_of(terminals: tuple[Terminal, ...]) -> Body:
    """Return a choice of the terminals; a single one as itself."""
    return terminals[0] if len(terminals) == 1 else Alternation(terminals)
