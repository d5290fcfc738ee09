"""Random walks over the masks of every schema of the official suite."""

from __future__ import annotations

import random
from functools import cache
from typing import TypeAlias

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError
from guided.spec import JsonOptions, JsonSchema
from tests.conformance.suite import DIALECTS, Group, Part, groups
from tests.kit.effort import is_long, times
from tests.kit.oracles import JUDGES, Judge, Validator, may_err
from tests.kit.walks import BYTES, random_walk
from tests.kit.writing import ANY_WAY, SCHEMA_ORDER

_COMPILER = ConstraintCompiler(BYTES)


_Judges: TypeAlias = dict[Validator, Judge]


@cache
def _judged(draft: str) -> list[tuple[Group, _Judges]]:
    """The required groups of a draft, each with the validators that may judge written texts."""
    return [(group, _judges(group)) for group in groups(Part.REQUIRED, draft)]


def _judges(group: Group) -> _Judges:
    """The validators that judge all documents of the group as the suite does."""
    able = {}
    for validator, make in JUDGES.items():
        try:
            judge = make(group.text, group.documents)
            if all(judge(case.text.decode()) == case.valid for case in group.cases):
                able[validator] = judge
        except Exception:  # whatever a validator cannot do is no matter of ours  # noqa: S112 - only what compiles is walked
            continue
    return able


def _writings(group: Group) -> tuple[JsonOptions, ...]:
    """Both ways of writing; for groups that older drafts also have, one each in the short form."""
    both = ANY_WAY, SCHEMA_ORDER
    place = list(DIALECTS).index(group.draft)
    return both if is_long() or not place else (both[place % 2],)


@pytest.mark.parametrize(
    ("draft", "file"),
    [
        (draft, file)
        for draft in DIALECTS
        for file in dict.fromkeys(group.file for group in groups(Part.REQUIRED, draft))
    ],
)
def test_every_walk_ends_and_what_it_wrote_is_valid(draft: str, file: str) -> None:
    """By the judgement of the validators that get the cases of the same group right."""
    for group, judges in _judged(draft):
        if group.file != file:
            continue
        for seed in range(times(1)):
            rng = random.Random(f"{group.name} {seed}")
            for writing in _writings(group):
                constraint = JsonSchema(group.text, writing, group.documents)
                try:
                    start = _COMPILER.compile(constraint).start()
                except GuidedError:
                    break
                walk = random_walk(start, rng, rng.randrange(40))
                text = BYTES.decode(walk.tokens).decode()
                for validator, judge in judges.items():
                    if not may_err(validator, group.text, text):
                        assert judge(text) is not False, f"{validator}: {group.name}: {text}"


def test_almost_every_group_has_a_judge() -> None:
    """The walks above are judged, except for a few groups that neither validator handles."""
    found = [judges for draft in DIALECTS for _, judges in _judged(draft)]
    assert sum(map(bool, found)) >= 0.99 * len(found)
