"""The tests of the official JSON Schema suite, and what an engine makes of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.peers.judging import Document, Job, Judged, Verdict
from tests.conformance.suite import Case, Group, Part, groups

__all__ = ["JudgedGroup", "Outcome", "job_of", "outcome_of", "read_groups"]

Outcome: TypeAlias = Literal[
    "right", "false accept", "false reject", "refused", "failed", "skipped"
]
"""``refused``: the schema was. ``failed``: there is no verdict. ``skipped``: tokens lack it."""

_FOLDERS: Final = {Part.REQUIRED: "", Part.OPTIONAL: "optional", Part.FORMAT: "optional/format"}


@dataclass(frozen=True)
class JudgedGroup:
    """A group of tests, which share a schema."""

    group: Group
    status: Literal["compiled", "refused", "timeout", "crash"]
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, group: Group, judged: Judged) -> JudgedGroup:
        """Return what a worker's verdicts are for a group."""
        if judged.status == "compile_error":
            refused: Outcome = "refused"
            return cls(group, "refused", (refused,) * len(group.cases))
        # Of a schema that was broken off, there is no verdict on the last documents.
        outcomes = tuple(
            outcome_of(verdict, case.valid)
            for case, verdict in zip(
                group.cases, chain(judged.verdicts, repeat(None)), strict=False
            )
        )
        if judged.status == "timeout" or judged.status == "crash":
            return cls(group, judged.status, outcomes)
        return cls(group, "compiled", outcomes)


def outcome_of(verdict: Verdict | None, valid: bool) -> Outcome:
    """Return what a verdict on a document is; ``None`` where it came to none."""
    match verdict:
        case "skipped":
            return "skipped"
        case "accepted":
            return "right" if valid else "false accept"
        case "rejected":
            return "false reject" if valid else "right"
    return "failed"


def job_of(group: Group, limit: float) -> Job:
    """Return a group for a worker, its schema with the name of its draft; seconds for all of it."""
    documents = [Document(case.document, case.valid) for case in group.cases]
    return Job(json.loads(group.text), documents, limit)


def read_groups(checkout: Path | None, part: Part, draft: str) -> Iterator[Group]:
    """Yield the groups of a part of a draft, of a checkout or of the copy that tests have."""
    if checkout is None:
        yield from groups(part, draft)
        return
    folder = checkout / "tests" / draft / _FOLDERS[part]
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            cases = [
                Case(test["description"], test["data"], test["valid"]) for test in group["tests"]
            ]
            yield Group(draft, part, file.stem, group["description"], group["schema"], tuple(cases))
