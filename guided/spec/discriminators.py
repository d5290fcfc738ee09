"""Finds members that distinguish the alternatives of a schema, as a discriminator does.

::

    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "cat"}, …}, …},
               {"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}, …}, …}]}

No object with the member ``kind`` fits both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from guided.spec.references import target_of
from guided.spec.schema_shape import old_draft

__all__ = ["Discriminators"]

_COMBINING: Final = ("oneOf", "anyOf", "allOf")
_MAX_VALUES: Final = 250_000
"""The most members and values that are read and compared, as a reference is short and may lead to
very many. Beyond it nothing is known of a member, as if its values were not listed."""


class _Member(NamedTuple):
    """What a branch states about a member."""

    values: frozenset[str | int | None]
    """The only values that it may have."""
    is_required: bool


_Members: TypeAlias = Mapping[str, _Member]


class Discriminators:
    """Finds the discriminators of unions in a schema; reads each part once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._members_by_id: dict[int, _Members] = {}
        """Members by identity of a part of the schema, which the schema keeps referenced."""
        self._draft = old_draft(root)
        self._values_left = _MAX_VALUES

    def of(self, branches: Any) -> dict[str, bool]:
        """Return the members whose values differ in all these branches, which must all be objects.

        Each name maps to whether every branch requires the member: if one does not, an object
        without the member may fit several.
        """
        if not isinstance(branches, list) or not branches:
            return {}
        members_of_each = [self._of(branch) for branch in branches]
        if not self._may_read(len(members_of_each[0])):
            return {}
        return {
            name: all(each[name].is_required for each in members_of_each)
            for name in members_of_each[0]
            if self._are_disjoint(each.get(name) for each in members_of_each)
        }

    def _may_read(self, count: int) -> bool:
        """Count members, or values of them; returns whether so many may still be read."""
        self._values_left -= count
        return self._values_left >= 0

    def _are_disjoint(self, members: Iterator[_Member | None]) -> bool:
        """Return whether all members exist, and no two have a value in common."""
        seen = set[str | int | None]()
        for member in members:
            if member is None or not self._may_read(1 + len(member.values)):
                return False
            if not seen.isdisjoint(member.values):
                return False
            seen |= member.values
        return True

    def _of(self, branch: Any) -> _Members:
        if not isinstance(branch, dict):
            return {}
        if id(branch) not in self._members_by_id:
            self._members_by_id[id(branch)] = {}  # a part that refers back to itself gives nothing
            self._members_by_id[id(branch)] = self._read(branch)
        return self._members_by_id[id(branch)]

    def _read(self, branch: dict[str, Any]) -> _Members:
        """Return the members with listed values, in whatever the branch refers to or combines.

        Only one of the keywords that state values is read; the others can only reduce them.
        """
        if "$ref" in branch:
            target = self._of(target_of(self._root, branch["$ref"]))
            return target if self._draft else self._with_required(target, branch.get("required"))
        if branch.get("type") == "object":
            return dict(self._listed_members(branch))
        parts = next((branch[name] for name in _COMBINING if name in branch), None)
        if not isinstance(parts, list) or not parts or ("allOf" in branch and len(parts) > 1):
            return {}
        members_of_each = [self._of(part) for part in parts]
        if len(parts) == 1:
            return members_of_each[0]
        if not self._may_read(len(members_of_each[0])):
            return {}
        names = [
            name
            for name in members_of_each[0]
            if all(name in each for each in members_of_each)
            and self._may_read(sum(len(each[name].values) for each in members_of_each))
        ]
        return {
            name: _Member(
                frozenset().union(*(each[name].values for each in members_of_each)),
                all(each[name].is_required for each in members_of_each),
            )
            for name in names
        }

    def _listed_members(self, branch: dict[str, Any]) -> Iterator[tuple[str, _Member]]:
        members, required = branch.get("properties"), branch.get("required", [])
        if not isinstance(members, dict) or not isinstance(required, list):
            return
        owed = {name for name in required if isinstance(name, str)}
        for name, member in members.items():
            if isinstance(member, dict) and "$ref" in member:
                member = target_of(self._root, member["$ref"])
            values = self._values(member) if isinstance(member, dict) else None
            # Equal numbers may differ as floats, and containers are no keys.
            if (
                isinstance(values, list)
                and self._may_read(len(values))
                and all(isinstance(one, str | int | None) for one in values)
            ):
                yield name, _Member(frozenset(values), name in owed)

    def _with_required(self, members: _Members, required: object) -> _Members:
        """Return the members, of which those in ``required`` are now required."""
        if not isinstance(required, list) or not required:
            return members
        if not self._may_read(len(members)):
            return {}
        owed = {name for name in required if isinstance(name, str)}
        return {
            name: _Member(member.values, member.is_required or name in owed)
            for name, member in members.items()
        }

    def _values(self, member: dict[str, Any]) -> Any:
        if "const" in member and self._draft not in (3, 4):
            return [member["const"]]
        return member.get("enum")
