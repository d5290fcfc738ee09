"""The services of a server, called through one channel.

A channel of asyncio belongs to the event loop that it was opened in, which a client made at import
does not know yet; ``LoopServices`` opens it when it is first used.
"""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from guided.client.security import Endpoint
from guided.client.tracing import async_interceptors
from guided.errors import RequestError
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.grammar_pb2_grpc import GrammarServiceStub
from guided.v1.model_pb2_grpc import ModelServiceStub

if TYPE_CHECKING:
    from guided.v1.generation_pb2_grpc import GenerationServiceAsyncStub
    from guided.v1.grammar_pb2_grpc import GrammarServiceAsyncStub
    from guided.v1.model_pb2_grpc import ModelServiceAsyncStub

__all__ = ["LoopServices", "Services"]


class Services:
    """The stubs of all services over one channel, of either library."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.generation: GenerationServiceStub = GenerationServiceStub(channel)
        self.models: ModelServiceStub = ModelServiceStub(channel)
        self.grammars: GrammarServiceStub = GrammarServiceStub(channel)


class LoopServices:
    """The stubs of all services for the event loop that runs; ``RequestError`` if none does.

    Once the loop is closed, another may use them, over a channel of its own.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = Lock()
        self._opened: tuple[asyncio.AbstractEventLoop, Services] | None = None
        self._is_closed = False

    @property
    def generation(self) -> GenerationServiceAsyncStub:
        """The calls for answers."""
        return cast("GenerationServiceAsyncStub", self._here().generation)

    @property
    def models(self) -> ModelServiceAsyncStub:
        """The calls about models."""
        return cast("ModelServiceAsyncStub", self._here().models)

    @property
    def grammars(self) -> GrammarServiceAsyncStub:
        """The calls about constraints."""
        return cast("GrammarServiceAsyncStub", self._here().grammars)

    async def close(self) -> None:
        """Close the channel, if one is open; none is opened after that."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        # Dropping the channel of another loop closes it.
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await opened[1].channel.close()

    def _here(self) -> Services:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RequestError(
                "an AsyncClient is used where no event loop runs",
                hint="call it in a coroutine, or use guided.Client",
            ) from None
        with self._lock:
            if self._is_closed:
                raise RequestError("the client is closed", hint="make another")
            if self._opened is None or self._opened[0] is not loop:
                if self._opened is not None and not self._opened[0].is_closed():
                    raise RequestError(
                        "an AsyncClient is used in two event loops, of which neither is closed",
                        hint="make a client for each",
                    )
                # Dropping the channel of a loop that is closed closes the channel.
                channel = self._endpoint.open_async(async_interceptors())
                self._opened = loop, Services(channel)
            return self._opened[1]
