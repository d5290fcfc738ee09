"""Reads what calls over gRPC ask for: decodes it, completes it, and refuses what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from guided.spec import MAX_DEADLINE, GenerationRequest, TokenId
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from guided.stats import ModelInfo
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request
from guided_service.config import ServerConfig
from guided_service.constraint_store import ConstraintStore
from guided_service.defaults import fill_request
from guided_service.held_bytes import count_held
from guided_service.intake import Readers
from guided_service.object_sizes import memory_of
from guided_service.request_ids import check_request_id
from guided_service.status import Context
from guided_service.token_texts import checked_tokens

__all__ = ["ChecksRequests", "RequestReader"]

_DELIVERY_SECONDS: Final = 0.1
"""Seconds of a call's deadline reserved for sending the answer to the caller."""


class ChecksRequests(Protocol):
    """Knows the models, and how long their prompts may be."""

    def model(self, name: str = "") -> ModelInfo:
        """Return the model of this name, or the first; raises ``UnknownModelError``."""

    def check_prompt(self, request: GenerationRequest) -> None:
        """Raise ``LimitExceededError`` for a prompt that must be too long, whatever its tokens."""


class RequestReader:
    """Reads requests as the engine is to have them."""

    def __init__(
        self,
        models: ChecksRequests,
        readers: Readers,
        stored: ConstraintStore,
        config: ServerConfig,
    ) -> None:
        self._config = config
        self._models = models
        self._readers = readers
        self._stored = stored

    async def read(
        self,
        message: pb.GenerateRequest,
        context: Context,
        size: int,
        *,
        check_around: Callable[[], None] | None = None,
    ) -> tuple[GenerationRequest, int]:
        """Return the request of a message of this size, and its size with the constraint it names.

        Its deadline is a little before that of the call. ``check_around`` checks what the message
        came in.
        """
        check_request_id(message.request_id)
        remaining, seconds = context.time_remaining(), None
        if remaining is not None:
            # The engine refuses a deadline that has almost passed.
            seconds = min(max(remaining - _DELIVERY_SECONDS, 1e-3), MAX_DEADLINE)

        def decode() -> GenerationRequest:
            if check_around is not None:
                check_around()
            fill_request(message, self._config)
            return decode_request(message, latest_seconds=seconds)

        asked = await self._readers.do(decode, size)
        request, named = await self._stored.resolved(asked, self._readers)
        size += named
        count_held(named + await self._readers.do(partial(memory_of, request), size))
        if request.tools is not None:
            # The engine repeats this with the model's own format; here it reports faults early.
            check = partial(with_calls, request.tools, request.constraint, HERMES)
            await self._readers.do(check, size)
        self._models.model(request.model)  # raises if there is no such model
        await self._readers.do(partial(self._models.check_prompt, request), size)
        return request, size

    async def read_tokens(
        self, tokens: Sequence[int], model: str, size: int
    ) -> tuple[TokenId, ...]:
        """Return the tokens of a model that a message of this size names."""
        check = partial(checked_tokens, tokens, self._models.model(model))
        checked = await self._readers.do(check, size)
        count_held(await self._readers.do(partial(memory_of, checked), size))
        return checked
