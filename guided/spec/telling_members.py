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

__all__ = ["TellingMembers"]

_STANDING_FOR: Final = ("oneOf", "anyOf", "allOf")


class _Member(NamedTuple):
    """What an alternative states about a member."""

    values: frozenset[str | int | None]
    """The only values that it may have."""
    is_required: bool


_Told: TypeAlias = Mapping[str, _Member]


class TellingMembers:
    """Reads each part of a schema once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, _Told] = {}
        """Results by id of a part of the schema, which the schema keeps referenced."""
        self._draft = old_draft(root)

    def of(self, branches: Any) -> dict[str, bool]:
        """Return the members that have different values in each of these alternatives, all objects.

        Each name maps to whether every alternative requires the member: if one does not, an object
        without the member may fit several.
        """
        if not isinstance(branches, list) or not branches:
            return {}
        told = [self._of(branch) for branch in branches]
        return {
            name: all(each[name].is_required for each in told)
            for name in told[0]
            if _are_apart(each.get(name) for each in told)
        }

    def _of(self, branch: Any) -> _Told:
        if not isinstance(branch, dict):
            return {}
        if id(branch) not in self._known:
            self._known[id(branch)] = {}  # a part that refers back to itself gives nothing
            self._known[id(branch)] = self._found(branch)
        return self._known[id(branch)]

    def _found(self, branch: dict[str, Any]) -> _Told:
        """Return the members that have few values, in whatever the branch stands for.

        It reads only one of the keywords that state values; the others can only reduce them.
        """
        if "$ref" in branch:
            target = self._of(target_of(self._root, branch["$ref"]))
            return target if self._draft else dict(_requiring(target, branch.get("required")))
        if branch.get("type") == "object":
            return dict(self._listed(branch))
        parts = next((branch[name] for name in _STANDING_FOR if name in branch), None)
        if not isinstance(parts, list) or not parts or ("allOf" in branch and len(parts) > 1):
            return {}
        told = [self._of(part) for part in parts]
        names = [name for name in told[0] if all(name in each for each in told)]
        return {
            name: _Member(
                frozenset().union(*(each[name].values for each in told)),
                all(each[name].is_required for each in told),
            )
            for name in names
        }

    def _listed(self, branch: dict[str, Any]) -> Iterator[tuple[str, _Member]]:
        members, required = branch.get("properties"), branch.get("required", [])
        if not isinstance(members, dict) or not isinstance(required, list):
            return
        for name, member in members.items():
            if isinstance(member, dict) and "$ref" in member:
                member = target_of(self._root, member["$ref"])
            values = self._values(member) if isinstance(member, dict) else None
            # Equal numbers may differ as floats, and containers are no keys.
            if isinstance(values, list) and all(
                isinstance(one, str | int | None) for one in values
            ):
                yield name, _Member(frozenset(values), name in required)

    def _values(self, member: dict[str, Any]) -> Any:
        if "const" in member and self._draft not in (3, 4):
            return [member["const"]]
        return member.get("enum")


def _requiring(told: _Told, required: object) -> Iterator[tuple[str, _Member]]:
    """Yield the members, some of them now required in addition."""
    for name, member in told.items():
        is_named = isinstance(required, list) and name in required
        yield name, _Member(member.values, member.is_required or is_named)


def _are_apart(members: Iterator[_Member | None]) -> bool:
    """Whether all members exist, and no two have a value in common."""
    seen = set[str | int | None]()
    for member in members:
        if member is None or not seen.isdisjoint(member.values):
            return False
        seen |= member.values
    return True
