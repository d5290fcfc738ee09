"""What assertions about objects ask of the value of one member, by its name."""

from __future__ import annotations

from typing import Final

from guided.json_schema.formulas.assertions import JsonType, Matches, Members, Names
from guided.json_schema.formulas.formula import TRUE, Formula, Leaf, leaves_of
from guided.json_schema.machine.name_classes import NameClass, NameSpace
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.stacks import ObjectFrame
from guided.regular.dfa import Dfa
from guided.regular.expression import Regular

__all__ = ["MemberRules"]


class MemberRules:
    """The formulas of members' values by name, and the classes of additional names.

    A name is either a ``str`` that the schema spells out, or a class of additional names, for which
    the same holds as they match the same patterns and fit the same formulas. A class is only asked
    about assertions in the goals that its space was made from: it knows no other patterns and
    formulas for names.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars) -> None:
        self.formulas: Final = scalars.formulas
        self.restriction: Final = restriction
        self.inliner: Final = restriction.inliner
        self.scalars: Final = scalars
        self._spaces: dict[object, NameSpace] = {}
        """By patterns and formulas for names. Never evicted: ``NameStates`` keys by identity."""
        # Caches, which may be cleared.
        self._spaces_by_goals: dict[tuple[Formula, ...], NameSpace] = {}
        """The results of ``name_space`` by goals."""
        self._named_formulas: dict[Leaf, dict[str, Formula]] = {}
        """``Members.named`` of an assertion, for look-ups."""
        self._leaf_formulas: dict[tuple[Leaf, str | NameClass], Formula] = {}
        """The results of ``leaf_formula`` by its arguments."""
        self._value_formulas: dict[tuple[tuple[Leaf, ...], str | NameClass], Formula] = {}
        """The results of ``value_formula`` by its arguments."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the automata of additional names and searches for them take."""
        # Copied first: another thread may add spaces meanwhile.
        return sum([space.nbytes for space in list(self._spaces.values())])

    def value_formula(self, members: tuple[Leaf, ...], name: str | NameClass) -> Formula:
        """Return what several ``Members`` assertions together ask of the value of a name."""
        if len(members) == 1:
            return self.leaf_formula(members[0], name)
        key = (members, name)
        if key not in self._value_formulas:
            parts = [self.leaf_formula(leaf, name) for leaf in members]
            self._value_formulas[key] = self.inliner.join(parts)
        return self._value_formulas[key]

    def leaf_formula(self, leaf: Leaf, name: str | NameClass) -> Formula:
        """Return what one ``Members`` assertion asks of the value of a name.

        Small nodes are inlined (``Inliner``), so that equal ones are one formula.
        """
        key = (leaf, name)
        if key not in self._leaf_formulas:
            parts = map(self.inliner.inline, self._value_formula_parts(leaf, name))
            self._leaf_formulas[key] = self.inliner.join(parts)
        return self._leaf_formulas[key]

    def _value_formula_parts(self, leaf: Leaf, name: str | NameClass) -> list[Formula]:
        """Return the conjuncts of ``leaf_formula``: those of the name and of all its patterns.

        Without any, what is asked of the rest. Some may occur twice.
        """
        assertion = leaf.assertion
        assert isinstance(assertion, Members), leaf
        if isinstance(name, NameClass):
            return [f for p, f in assertion.patterns if p in name.patterns] or [assertion.rest]
        by_name = self._named_formulas.get(leaf)
        if by_name is None:
            by_name = self._named_formulas[leaf] = dict(assertion.named)
        named = by_name.get(name)
        parts = [] if named is None else [named]
        # A name may be spelled out and match patterns: then all of them are about its value.
        if assertion.patterns:
            parts += [f for p, f in assertion.patterns if self._pattern_dfa(p).accepts(name)]
        return parts or [assertion.rest]

    def _pattern_dfa(self, pattern: Regular) -> Dfa:
        """Return the automaton of the names in which a pattern of the grammar matches."""
        return self.scalars.strings.leaf_dfa(self.formulas.leaf(Matches(pattern)))

    def name_fits(self, assertion: Names, name: str | NameClass) -> bool:
        """Return whether a name fits what an assertion asks of all names."""
        as_string = self.restriction.to_type(JsonType.STRING, assertion.name)
        if isinstance(name, NameClass):
            return as_string is TRUE or as_string in name.formulas
        return self.scalars.strings.fits(as_string, name)

    def name_space(self, goals: tuple[Formula, ...]) -> NameSpace:
        """Return the classes of additional names for the goals of an object.

        Goals with the same patterns and formulas for names, in the same order, have the same space.
        The id of a class is valid only in its space.
        """
        found = self._spaces_by_goals.get(goals)
        if found is None:
            patterns: dict[Regular, None] = {}
            formulas: dict[Formula, None] = {}
            for leaf in leaves_of(goals):
                if isinstance(leaf.assertion, Members):
                    patterns.update(dict.fromkeys(p for p, _ in leaf.assertion.patterns))
                elif isinstance(leaf.assertion, Names):
                    as_string = self.restriction.to_type(JsonType.STRING, leaf.assertion.name)
                    if as_string is not TRUE:
                        formulas[as_string] = None
            # Goals change with every member, their patterns hardly ever: these share the classes.
            key = (tuple(patterns), tuple(formulas))
            if key not in self._spaces:
                self._spaces[key] = NameSpace(
                    *key,
                    self._pattern_dfa,
                    self.scalars.strings.formula_dfa,
                    self.scalars.unavailable_bytes,
                )
            found = self._spaces_by_goals[goals] = self._spaces[key]
        return found

    def class_of(self, frame: ObjectFrame, name: str) -> int:
        """Return the id of an additional name's class, in the space of the goals of ``frame``."""
        space = self.name_space(frame.goals)
        found = NameClass(
            frozenset(p for p in space.patterns if self._pattern_dfa(p).accepts(name)),
            frozenset(f for f in space.formulas if self.scalars.strings.fits(f, name)),
        )
        return space.classes.index(found)
