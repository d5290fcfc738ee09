"""Answers calls about tokens: vLLM's ``/tokenize`` and ``/detokenize``, and Anthropic's count."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from guided.spec import PromptTokens
from guided.stats import ModelInfo
from guided_service.door import Caller
from guided_service.held_bytes import count_held
from guided_service.http.anthropic_request import read_count
from guided_service.http.body import read_body, read_json
from guided_service.http.call import (
    Face,
    Response,
    fail,
    taken_call,
    while_connected,
)
from guided_service.http.errors import JsonObject
from guided_service.http.fields import Body, given
from guided_service.http.find_model import find_model
from guided_service.http.sent_names import CameFrom
from guided_service.http.thinking import thinking_if_able
from guided_service.http.token_requests import DetokenizeRequest, Prompted, read_prompted
from guided_service.object_sizes import memory_of
from guided_service.token_texts import checked_tokens

__all__ = ["CountTokens", "Detokenize", "Tokenize"]


class _Asked(Protocol):
    @property
    def model(self) -> str | None:
        """The model's name as the caller gave it, if it did."""


_A = TypeVar("_A", bound=_Asked)


class _TokenCalls(ABC, Generic[_A]):
    """The application of one path: has the engine work on tokens while answers run."""

    method: str
    """Its name in logs."""

    def __init__(self, face: Face) -> None:
        self._face = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        face = self._face
        async with taken_call(face, self.method, scope, send) as (_, caller, response):
            body = await read_body(Headers(scope=scope), receive, face.config)
            size = len(body)
            asked, made = await face.readers.do(partial(self._asked, body), size)
            count_held(made)
            try:
                # vLLM, too, lets its own paths do without.
                model = find_model(asked.model, face.engine, face.config)
                answering = self._answer(asked, model, caller, size)
                await while_connected(receive, _told(answering, response))
            except Exception as error:
                await fail(response, error, face, self._came_from(asked))

    def _asked(self, body: bytes) -> tuple[_A, int]:
        """Return what a body requests, and the memory that it takes."""
        asked = self._read(read_json(body, self._face.config.max_message_fields))
        return asked, memory_of(asked)

    def _came_from(self, asked: _A) -> CameFrom:  # noqa: ARG002
        """Return the fields of the body that those of requests came from, for errors."""
        return {}

    @abstractmethod
    def _read(self, body: Body) -> _A:
        """Return what a body requests; raises RequestError."""

    @abstractmethod
    async def _answer(self, asked: _A, model: ModelInfo, caller: Caller, size: int) -> JsonObject:
        """Return the answer to a call for this model, whose body had so many bytes."""


async def _told(answering: Awaitable[JsonObject], response: Response) -> None:
    await response.whole(await answering)


class _PromptCalls(_TokenCalls[Prompted]):
    """Answers calls about the tokens of a prompt."""

    @override
    def _came_from(self, asked: Prompted) -> CameFrom:
        return asked.came_from

    @override
    async def _answer(
        self, asked: Prompted, model: ModelInfo, caller: Caller, size: int
    ) -> JsonObject:
        face, received = self._face, time.monotonic()
        request = replace(asked.request, model=model.name)
        if asked.thinks_if_able:
            request = thinking_if_able(request, model, asked.thoughts_fault)
        await face.readers.do(partial(face.engine.check_prompt, request), size)
        async with face.door.working(caller, received, seconds=None):
            found = await face.engine.tokenize(request, received, texts=asked.texts)
        return self._body(asked, found, model)

    @abstractmethod
    def _body(self, asked: Prompted, found: PromptTokens, model: ModelInfo) -> JsonObject:
        """Return what a call asked about the tokens."""


class Tokenize(_PromptCalls):
    """Answers calls for the tokens of a prompt."""

    method = "tokenize"

    @override
    def _read(self, body: Body) -> Prompted:
        return read_prompted(body)

    @override
    def _body(self, asked: Prompted, found: PromptTokens, model: ModelInfo) -> JsonObject:
        told: JsonObject = {
            "count": len(found.tokens),
            "max_model_len": model.context_window,
            "tokens": found.tokens,
        }
        if asked.texts:
            told["token_strs"] = [text.decode(errors="replace") for text in found.texts]
        return told


class CountTokens(_PromptCalls):
    """Answers calls for the number of a prompt's tokens, which Anthropic's API has."""

    method = "messages.count_tokens"

    @override
    def _read(self, body: Body) -> Prompted:
        return read_count(body)

    @override
    def _body(self, asked: Prompted, found: PromptTokens, model: ModelInfo) -> JsonObject:
        return {"input_tokens": len(found.tokens)}


class Detokenize(_TokenCalls[DetokenizeRequest]):
    """Answers calls for the text of tokens."""

    method = "detokenize"

    @override
    def _read(self, body: Body) -> DetokenizeRequest:
        return given(DetokenizeRequest, body)

    @override
    async def _answer(
        self, asked: DetokenizeRequest, model: ModelInfo, caller: Caller, size: int
    ) -> JsonObject:
        face, received = self._face, time.monotonic()
        check = partial(checked_tokens, asked.tokens, model)
        tokens = await face.readers.do(check, size)
        async with face.door.working(caller, received, seconds=None):
            text = await face.engine.detokenize(tokens, model.name)
        return {"prompt": text.decode(errors="replace")}
