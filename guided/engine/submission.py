"""A request as it was submitted, and when it is served: its deadline and its queue key."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guided.engine.request_clock import RequestClock
from guided.engine.request_isolation import is_request_error
from guided.errors import DeadlineExceededError, incident_of
from guided.spec import GenerationRequest, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher
    from guided.decoding.trace import Trace
    from guided.engine.group import Group
    from guided.engine.sliced_work import SlicedWork

__all__ = ["CacheUse", "ServiceOrder", "Submission"]


@dataclass(frozen=True, slots=True)
class ServiceOrder:
    """When a request is served; all moments are seconds of a clock that never goes back."""

    queue_key: float
    """The request with the smaller key is served first, and gives way last."""
    deadline: float | None = None
    """When the answer has to be complete."""

    @classmethod
    def of(cls, request: GenerationRequest, received: float) -> ServiceOrder:
        """Return the order of a request that was received at this moment."""
        # Both count from the same moment, however long the request took to get here.
        return cls(
            queue_key=request.queue_key(received),
            deadline=None if request.deadline is None else received + request.deadline,
        )

    def check(self, moment: float) -> None:
        """Raise DeadlineExceededError if a model call would begin the answer too late."""
        if self.is_late(moment):
            raise DeadlineExceededError(
                "the deadline came before the model had chosen anything of the answer",
                hint="allow more time, or send less at once",
            )

    def is_late(self, moment: float) -> bool:
        """Whether the answer would be too late at this moment."""
        return self.deadline is not None and self.deadline < moment


@dataclass(slots=True)
class CacheUse:
    """Tokens of a request that were in the cache already, or had to be copied there."""

    reused: int | None = None
    """Tokens of the prompt left by earlier requests; ``None`` until the request first runs."""
    shared: int = 0
    """Tokens that one of its texts took over from another."""
    copied: int = 0
    """Tokens that were copied where two of its texts part."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A request in the engine, with all that is known of it before its answer begins."""

    request_id: str
    request: GenerationRequest
    prompt: tuple[TokenId, ...]
    order: ServiceOrder
    is_streamed: bool
    clock: RequestClock
    matcher: SlicedWork[Matcher]
    """Compiles the constraint; its result is the position before the first token."""
    cache_use: CacheUse = field(default_factory=CacheUse)
    at_end: ExitStack = field(default_factory=ExitStack)
    """Releases what the request holds when it ends, however it ends. Nothing enters it before
    ``Admission.make_group``, which may be interrupted and begun again."""
    kept_by_drafters: dict[str, object] = field(default_factory=dict)
    """What drafters keep for all of its answers, by their names."""
    trace: Trace | None = None
    """Records the steps, where someone wants to look at them."""
    adapter: int = 0
    """Number of the LoRA adapter that answers, 0 for the model alone."""
    client: str = ""
    """Who sent it; clients take turns where work is done in slices."""
    admitting: SlicedWork[Group] | None = None
    """Makes the group of its answers, if that takes long, once the constraint is compiled."""

    @property
    def work(self) -> SlicedWork[Matcher] | SlicedWork[Group]:
        """The work in slices before it can run."""
        return self.matcher if self.admitting is None else self.admitting

    @property
    def salt(self) -> str:
        """The key under which prefixes are shared: adapters compute other keys and values."""
        # The number always comes first: no salt of a caller may look like one of an adapter.
        return f"{self.adapter}:{self.request.cache_salt}"

    def end(self) -> None:
        """Release what the request holds; a fault in that is logged and not passed on."""
        # The caller may be ending it for another fault, or its answer may be complete.
        try:
            self.at_end.close()
        except BaseException as fault:
            if not is_request_error(fault):
                raise
            incident_of(fault, f"the engine failed to end request {self.request_id!r}")
