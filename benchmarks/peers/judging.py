"""Compiles a schema and judges its documents by walking them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from benchmarks.peers.adapter import Adapter, Matcher, serialise
from benchmarks.peers.walk import Seen, clock, forced_walk, walk

__all__ = ["STATUSES", "Document", "Job", "Judged", "Status", "Verdict", "judge"]

Status: TypeAlias = Literal[
    "pass", "compile_error", "validation_error", "invalidation_error", "timeout", "crash"
]
"""What became of a schema, by the first that holds, from a crash down to a pass.

``validation_error``: a valid document was refused, or a walk failed. ``invalidation_error``: an
invalid document was accepted.
"""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

Verdict: TypeAlias = Literal["accepted", "rejected", "error", "skipped"]
"""What an engine says of a document; one that its tokens do not spell is skipped."""


class Document(NamedTuple):
    """A parsed document, and whether its schema's authors call it valid."""

    value: Any
    valid: bool


@dataclass(frozen=True)
class Job:
    """A parsed schema and its documents."""

    schema: Any
    documents: Sequence[Document]
    limit: float
    """Seconds for all of it."""
    forced: bool = False
    """Walk valid documents once more, for forced tokens."""
    warm: bool = False
    """Walk each document twice, and keep the times of the second walk."""


@dataclass
class Judged:
    """What became of a schema and of its documents; lists have an entry for each document."""

    status: Status = "pass"
    detail: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    valid_rejected: int = 0
    invalid_accepted: int = 0
    mask_ns: list[list[int]] = field(default_factory=list)
    accept_ns: list[list[int]] = field(default_factory=list)
    single: int = 0
    mask_lies: int = 0
    eos_disagrees: int = 0
    forced: int = 0
    forced_wrong: int = 0
    forced_tokens: int = 0
    """Tokens of the documents that were walked for forced ones."""
    ttfm_us: float | None = None
    """Microseconds to compile and make the first mask; ``None`` if it came to no mask."""

    @property
    def token_ns(self) -> list[list[int]]:
        """Nanoseconds of mask and step together."""
        pairs = zip(self.mask_ns, self.accept_ns, strict=True)
        # There is one mask more than there are steps.
        return [[a + b for a, b in zip(masks, steps, strict=False)] for masks, steps in pairs]

    def take(self, part: Judged) -> None:
        """Add what a worker reported of a schema before it was done."""
        self.verdicts += part.verdicts
        self.mask_ns += part.mask_ns
        self.accept_ns += part.accept_ns
        if part.ttfm_us is not None:
            self.ttfm_us = part.ttfm_us

    def count(self, seen: Seen) -> None:
        """Add the counts of a walk."""
        self.single += seen.single
        self.mask_lies += seen.mask_lies
        self.eos_disagrees += seen.eos_disagrees

    def conclude(self, verdict: Verdict, valid: bool, refusal: str) -> None:
        """Add the verdict on a document, and what follows from it for the schema."""
        place = f"test {len(self.verdicts)}"
        self.verdicts.append(verdict)
        if valid and verdict != "accepted":
            self.valid_rejected += 1
            if self.status != "validation_error":
                self.status, self.detail = "validation_error", f"{place}: {refusal}"
        elif verdict == "error":
            if self.status == "pass":
                self.status, self.detail = "validation_error", f"{place}: {refusal}"
        elif verdict == "accepted" and not valid:
            self.invalid_accepted += 1
            if self.status == "pass":
                self.status, self.detail = "invalidation_error", f"{place}: invalid accepted"


def judge(adapter: Adapter, job: Job, tell: Callable[[Judged], object] = lambda _: None) -> Judged:
    """Compile a schema and judge its documents, telling each step in case it is the last."""
    deadline = clock() + int(job.limit * 1e9)
    judged = Judged()
    try:
        matcher = _compiled(adapter, job.schema, judged)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        judged.status, judged.detail = "compile_error", _message(error)
        return judged
    tell(Judged(ttfm_us=judged.ttfm_us))
    try:
        for document in job.documents:
            _judge_document(adapter, matcher, document, job, deadline, judged)
            tell(
                Judged(
                    verdicts=judged.verdicts[-1:],
                    mask_ns=judged.mask_ns[-1:],
                    accept_ns=judged.accept_ns[-1:],
                )
            )
    except TimeoutError:
        judged.status, judged.detail = "timeout", "in the walk"
    return judged


def _compiled(adapter: Adapter, schema: Any, judged: Judged) -> Matcher:
    """Return the matcher of a schema, with its first mask made."""
    began = clock()
    matcher = adapter.compile(schema)
    matcher.mask()
    ended = clock()
    if error := matcher.error():
        raise ValueError(f"first mask: {error}")
    judged.ttfm_us = (ended - began) / 1e3
    return matcher


def _judge_document(
    adapter: Adapter, matcher: Matcher, document: Document, job: Job, deadline: int, judged: Judged
) -> None:
    text = serialise(document.value, adapter.compact)
    ids = adapter.tokenizer.encode(text)
    seen = Seen()
    judged.mask_ns.append(seen.mask_ns)
    judged.accept_ns.append(seen.accept_ns)
    if adapter.tokenizer.decode_bytes(ids) != text.encode():
        judged.verdicts.append("skipped")
        return
    if clock() > deadline:
        raise TimeoutError
    verdict: Verdict
    try:
        if job.warm:
            matcher.reset()
            walk(adapter, matcher, ids, deadline, Seen())
        matcher.reset()
        refusal = walk(adapter, matcher, ids, deadline, seen)
        verdict = "rejected" if refusal else "accepted"
    except (KeyboardInterrupt, SystemExit, TimeoutError):
        raise
    except BaseException as error:
        verdict, refusal = "error", f"exception: {_message(error)}"
    judged.count(seen)
    judged.conclude(verdict, document.valid, refusal)
    if job.forced and document.valid and verdict == "accepted":
        matcher.reset()
        if (found := forced_walk(matcher, ids, deadline)) is not None:
            judged.forced += found.right
            judged.forced_wrong += found.wrong
            judged.forced_tokens += len(ids)


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:600]
