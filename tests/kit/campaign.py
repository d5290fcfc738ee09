"""Fuzzing campaigns: cases of a subject are drawn and judged until the time is up.

A *subject* is one promise and the oracle that checks it: schemas against a validator, patterns
against ``re``. It defines how a case is drawn, judged, made smaller, and written as a test. Every
case has a seed of its own, printed as ``SEED:INDEX``, so that one case can be tried again without
those before it.
"""

from __future__ import annotations

import random
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

__all__ = [
    "FAULT_TEST",
    "SLOW",
    "Fault",
    "Finding",
    "Report",
    "Subject",
    "judged",
    "run_campaign",
    "smaller_texts",
    "try_case",
]

SLOW = 20.0
"""Seconds of processor time that a case may take; bounds on work end most after a tenth of it."""

_KEPT_OF_A_KIND = 3
_SECONDS_OF_MINIMISING = 30.0
_OURS = "guided"

FAULT_TEST = '''"""{doc}."""

from __future__ import annotations

from tests.kit.campaign import judged
{imports}


def test_the_case_has_no_fault() -> None:
    assert judged({subject}, {case}) is None
'''
"""The test of a case that is a literal; one that says in words what is expected is better."""

Case = TypeVar("Case")


@dataclass(frozen=True)
class Fault:
    """A fault of a case; faults of one kind count as the same one while a case is made smaller."""

    kind: str
    detail: str


class Subject(ABC, Generic[Case]):
    """One promise, and its check."""

    name: str
    slow: ClassVar[float] = SLOW
    peer_seconds: float = 0.0
    """The part of a case's time that its oracles took, for subjects that measure it."""

    def lacks(self) -> str | None:
        """What the subject needs and this machine lacks: such a subject is left out."""
        return None

    @abstractmethod
    def draw(self, rng: random.Random) -> Case:
        """A case, made from the numbers of ``rng`` alone."""

    @abstractmethod
    def judge(self, case: Case) -> Fault | None:
        """The fault of a case, if any; an exception is a fault as well."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Smaller cases like this one, those with the most taken away first."""
        del case
        return iter(())

    def tally(self) -> str:
        """What has been judged, in words, if the number of cases does not say it all."""
        return ""

    @abstractmethod
    def as_test(self, case: Case, fault: Fault) -> str:
        """The text of a test module that fails as long as the case has the fault."""


@dataclass(frozen=True)
class Finding:
    """A case with a fault, made as small as time allowed."""

    seed: str
    fault: Fault
    case: str
    test: str


@dataclass(frozen=True)
class Report:
    """The result of a campaign; ``tries`` counts cases, ``slowest`` is in seconds."""

    subject: str
    tries: int
    tally: str
    slowest: float
    findings: tuple[Finding, ...]
    counts: dict[str, int]


def run_campaign(
    subject: Subject[Case], seed: int, seconds: float, most: int | None = None
) -> Report:
    """Try cases until the time is up, or ``most`` of them."""
    until = time.monotonic() + seconds
    findings: list[Finding] = []
    kinds: Counter[str] = Counter()
    slowest = 0.0
    index = 0
    while time.monotonic() < until and index != most:
        begun = time.process_time()
        finding = try_case(subject, f"{seed}:{index}", kinds)
        if finding is not None:
            findings.append(finding)
        else:
            slowest = max(slowest, time.process_time() - begun)
        index += 1
    return Report(subject.name, index, subject.tally(), slowest, tuple(findings), dict(kinds))


def try_case(subject: Subject[Case], seed: str, kinds: Counter[str]) -> Finding | None:
    """Count the case of one seed; returns its finding, unless there are enough of its kind."""
    case = subject.draw(random.Random(f"{subject.name}:{seed}"))
    fault = judged(subject, case)
    if fault is None:
        return None
    kinds[fault.kind] += 1
    if kinds[fault.kind] > _KEPT_OF_A_KIND:
        return None
    case, fault = _minimised(subject, case, fault)
    return Finding(seed, fault, repr(case), subject.as_test(case, fault))


def judged(subject: Subject[Case], case: Case) -> Fault | None:
    """The fault of a case, if any; an exception and too long a time are faults as well."""
    for _ in range(2):  # a slow case runs again: it may have waited for kernels to be compiled
        begun, subject.peer_seconds = time.process_time(), 0.0
        try:
            fault = subject.judge(case)
        except Exception as error:
            kind = type(error).__name__
            return Fault(f"{kind} {_place(error)}", f"{kind}: {error}")
        seconds = time.process_time() - begun - subject.peer_seconds
        if fault is not None or seconds <= subject.slow:
            return fault
    return Fault("slow", f"{seconds:.1f} s")


def smaller_texts(text: str) -> Iterator[str]:
    """The text without a run of its characters; runs shrink from half of the text to one."""
    length = len(text) // 2
    while length:
        for start in range(0, len(text), length):
            yield text[:start] + text[start + length :]
        length //= 2


def _minimised(subject: Subject[Case], case: Case, fault: Fault) -> tuple[Case, Fault]:
    until = time.monotonic() + _SECONDS_OF_MINIMISING
    candidates = subject.smaller(case)
    while time.monotonic() < until:
        candidate = next(candidates, None)
        if candidate is None:
            break
        found = judged(subject, candidate)
        if found is not None and found.kind == fault.kind:
            case, fault = candidate, found
            candidates = subject.smaller(case)
    return case, fault


def _place(error: Exception) -> str:
    """The innermost function of ours that an exception came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parts]
    innermost = (ours or frames)[-1]
    return f"in {Path(innermost.filename).name} {innermost.name}"
