"""A request whose constraint is being compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guided.engine.request_clock import RequestClock
from guided.engine.sliced import Sliced
from guided.engine.urgency import Urgency
from guided.spec import GenerationRequest, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Preparation"]


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """What a sequence is made of, once its matcher is there."""

    request_id: str
    request: GenerationRequest
    prompt: tuple[TokenId, ...]
    urgency: Urgency
    is_streamed: bool
    clock: RequestClock
    matcher: Sliced[Matcher]
