"""The official suite: schemas are compiled, documents are walked byte by byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError, UnsatisfiableError
from guided.spec import JsonOptions, JsonSchema
from tests.conformance.exceptions import EXCEPTIONS
from tests.conformance.suite import DIALECTS, Group, Part, groups
from tests.kit.walks import BYTES, accepts
from tests.kit.writing import ANY_WAY, ANY_WAY_WITH_FORMATS

_COMPILER = ConstraintCompiler(BYTES)

_WRITING = {
    Part.REQUIRED: ANY_WAY,
    Part.OPTIONAL: ANY_WAY,
    Part.FORMAT: ANY_WAY_WITH_FORMATS,
}
_FILES = [
    (part, draft, file)
    for part in Part
    for draft in DIALECTS
    for file in dict.fromkeys(group.file for group in groups(part, draft))
]


def _wrong(group: Group, options: JsonOptions) -> Iterator[tuple[str, str]]:
    """The cases that are judged differently from the suite, and what happened."""
    start = None
    try:
        constraint = JsonSchema(group.text, options, group.documents)
        start = _COMPILER.compile(constraint).start()
    except UnsatisfiableError:
        pass  # then no document is valid
    except GuidedError as error:
        for case in group.cases:
            yield case.description, f"refused: {error}"
        return
    for case in group.cases:
        accepted = start is not None and accepts(start, case.text)
        if accepted != case.valid:
            yield case.description, "accepted" if accepted else "rejected"


def _listed(part: Part, draft: str, group: Group) -> set[str]:
    """The cases of a group that are listed as exceptions."""
    return {
        case
        for deviation in EXCEPTIONS
        if (deviation.part, deviation.file, deviation.group)
        == (part, group.file, group.description)
        and draft in deviation.drafts
        for case in deviation.cases
    }


@pytest.mark.parametrize(("part", "draft", "file"), _FILES)
def test_documents_are_accepted_exactly_when_they_are_valid(
    part: Part, draft: str, file: str
) -> None:
    """Every case that is not listed as an exception; listed ones must differ."""
    unlisted, stale = [], []
    for group in groups(part, draft):
        if group.file == file:
            wrong = dict(_wrong(group, _WRITING[part]))
            listed = _listed(part, draft, group)
            unlisted += [
                f"{group.description}: {case}: {what}"
                for case, what in wrong.items()
                if case not in listed
            ]
            stale += [f"{group.description}: {case}" for case in listed - wrong.keys()]
    assert not unlisted, "\n".join(unlisted)
    assert not stale, "no exceptions any more:\n" + "\n".join(stale)


def test_no_required_test_is_an_exception() -> None:
    """Exceptions are made only where the specification leaves room."""
    assert Part.REQUIRED not in {deviation.part for deviation in EXCEPTIONS}


def test_every_exception_names_cases_of_the_suite() -> None:
    """A stale list would hide new cases under an old name."""
    for deviation in EXCEPTIONS:
        for draft in deviation.drafts:
            known = {
                (group.file, group.description, case.description)
                for group in groups(deviation.part, draft)
                for case in group.cases
            }
            for case in deviation.cases:
                assert (deviation.file, deviation.group, case) in known, (draft, case)


@pytest.mark.parametrize("draft", DIALECTS)
def test_nearly_all_format_tests_hold(draft: str) -> None:
    """At least 98 of 100, by the list of exceptions."""
    total = sum(len(group.cases) for group in groups(Part.FORMAT, draft))
    excepted = sum(len(_listed(Part.FORMAT, draft, group)) for group in groups(Part.FORMAT, draft))
    assert excepted <= 0.02 * total
