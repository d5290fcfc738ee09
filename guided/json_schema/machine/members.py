"""What assertions about objects ask of one member, by its name."""

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
    """What is asked of the value of a name, and which classes of names there are.

    A name is either one that the schema spells out, or in a class: all names of a class match the
    same patterns and fit the same formulas.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars) -> None:
        self.formulas: Final = scalars.formulas
        self.restriction: Final = restriction
        self.sharing: Final = restriction.sharing
        self.scalars: Final = scalars
        self._spaces: dict[object, NameSpace] = {}
        """By patterns and formulas for names. Never dropped: see ``NameStates``."""
        # The following remember what their keys decide, and may be cleared.
        self._goal_spaces: dict[tuple[Formula, ...], NameSpace] = {}
        self._pattern_leaves: dict[int, Leaf] = {}
        """The assertion of each pattern, by the identity of the pattern, which it keeps alive."""
        self._named: dict[Leaf, dict[str, Formula]] = {}
        """``Members.named`` of an assertion, for look-ups."""
        self._of_one: dict[tuple[Leaf, str | NameClass], Formula] = {}
        self._joined: dict[tuple[tuple[Leaf, ...], str | NameClass], Formula] = {}

    def of_all(self, members: tuple[Leaf, ...], name: str | NameClass) -> Formula:
        """Return what several assertions together ask of the value of a name.

        Results are kept by the assertions and the name; without assertions the result is TRUE.
        """
        if len(members) == 1:
            return self.of_one(members[0], name)
        key = (members, name)
        if key not in self._joined:
            parts = [self.of_one(leaf, name) for leaf in members]
            self._joined[key] = self.formulas.all_of(parts)
        return self._joined[key]

    def of_one(self, leaf: Leaf, name: str | NameClass) -> Formula:
        """Return what one assertion asks of the value of a name.

        Results are kept by assertion and name. Small nodes are written out (``Sharing``), so that
        equal ones meet.
        """
        key = (leaf, name)
        if key not in self._of_one:
            parts = map(self.sharing.of, self._said_by(leaf, name))
            self._of_one[key] = self.formulas.all_of(parts)
        return self._of_one[key]

    def _said_by(self, leaf: Leaf, name: str | NameClass) -> list[Formula]:
        """Return what an assertion about members asks of the value of a name: all of it must hold.

        The rest is asked only if neither the name nor a pattern is listed for it. Never empty.
        The caller joins formulas that occur twice.
        """
        about = leaf.assertion
        assert isinstance(about, Members), leaf
        if isinstance(name, NameClass):
            return [f for p, f in about.patterns if p in name.patterns] or [about.rest]
        by_name = self._named.get(leaf)
        if by_name is None:
            by_name = self._named[leaf] = dict(about.named)
        named = by_name.get(name)
        parts = [] if named is None else [named]
        # A name may be spelled out and match patterns: then all of them are about its value.
        if about.patterns:
            parts += [f for p, f in about.patterns if self._dfa_of(p).accepts(name)]
        return parts or [about.rest]

    def _dfa_of(self, pattern: Regular) -> Dfa:
        """Return the automaton of the names in which a pattern of the grammar matches."""
        # By identity: the grammar keeps its patterns, and hashing a large one takes long.
        leaf = self._pattern_leaves.get(id(pattern))
        if leaf is None:
            leaf = self._pattern_leaves[id(pattern)] = self.formulas.leaf(Matches(pattern))
        return self.scalars.strings.leaf_dfa(leaf)

    def name_fits(self, about: Names, name: str | NameClass) -> bool:
        """Return whether a name fits what an assertion asks of all names.

        A class knows only the formulas of its own space, so ``about`` has to be part of the goals
        from which that space was made.
        """
        as_string = self.restriction.to(JsonType.STRING, about.name)
        if isinstance(name, NameClass):
            return as_string is TRUE or as_string in name.fits
        return self.scalars.strings.fits(as_string, name)

    def space(self, goals: tuple[Formula, ...]) -> NameSpace:
        """Return the classes of names that the schema does not spell out.

        Goals with the same patterns and formulas for names have the same space, which numbers the
        classes: a number means nothing without its space.
        """
        found = self._goal_spaces.get(goals)
        if found is None:
            patterns: dict[Regular, None] = {}
            formulas: dict[Formula, None] = {}
            for leaf in leaves_of(goals):
                if isinstance(leaf.assertion, Members):
                    patterns.update(dict.fromkeys(p for p, _ in leaf.assertion.patterns))
                elif isinstance(leaf.assertion, Names):
                    as_string = self.restriction.to(JsonType.STRING, leaf.assertion.name)
                    if as_string is not TRUE:
                        formulas[as_string] = None
            # Goals change with every member, their patterns hardly ever: these share the classes.
            key = (tuple(patterns), tuple(formulas))
            if key not in self._spaces:
                self._spaces[key] = NameSpace(
                    *key, self._dfa_of, self.scalars.strings.formula_dfa, self.scalars.missing
                )
            found = self._goal_spaces[goals] = self._spaces[key]
        return found

    def class_of(self, frame: ObjectFrame, name: str) -> int:
        """Return the class of a name that the schema does not spell out; every such name has one.

        The number is valid in the space of the goals of ``frame``.
        """
        space = self.space(frame.goals)
        found = NameClass(
            frozenset(p for p in space.patterns if self._dfa_of(p).accepts(name)),
            frozenset(f for f in space.formulas if self.scalars.strings.fits(f, name)),
        )
        return space.classes.index(found)
