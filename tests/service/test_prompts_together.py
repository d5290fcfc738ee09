"""Several prompts of one call are bounded, counted and admitted together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guided.bearer import new_token, token_hash
from guided.errors import LimitExceededError
from guided.spec import (
    Alternative,
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided.spec.delta import Delta
from guided.testing.walking_model import WalkingModel
from guided.wire_request import encode_request
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.health import HealthServicer
from guided_service.http import call
from guided_service.http.app import application
from guided_service.http.call import Face
from guided_service.intake import Readers
from guided_service.ray.proxied_http import ProxiedHttp
from guided_service.request_watch import WatchesRequests
from guided_service.stream_events import StreamEvent
from guided_service.token_book import TokenBook

SCORED = TokenLogprobs(
    TokenId(0), b"a", -0.5, -0.5, top=(Alternative(TokenId(0), b"a", -0.5, -0.5),) * 20
)
TOKEN = new_token()
USER = {"role": "user", "content": "x"}


class Scoring(WalkingModel):
    """Answers with a thousand log-probabilities."""

    async def generate(
        self, request: GenerationRequest, received: float, client: str = ""
    ) -> GenerationResult:
        result = await super().generate(replace(request, top_logprobs=None), received, client)
        return replace(result, logprobs=(SCORED,) * 1000)


class Rig:
    """The application in this process, without a server."""

    def __init__(self, engine: WalkingModel | None = None, book: TokenBook | None = None) -> None:
        self.config = ServerConfig()
        self.door = Door(self.config)
        self.engine = engine or Scoring()
        self.readers = Readers()
        watch = WatchesRequests("guided", None, None)
        self.face = Face(self.engine, self.door, self.readers, watch, book, self.config)
        self.held_when_sent = 0
        """The bytes that calls held when the last content was sent."""

    def post(self, body: dict[str, Any], path: str = "/v1/completions") -> tuple[int, Any]:
        """Return the status and the body of the answer."""
        return asyncio.run(self._post(body, path))

    async def _post(self, body: dict[str, Any], path: str) -> tuple[int, Any]:
        coming = [{"type": "http.request", "body": json.dumps(body).encode()}]
        sent: list[Any] = []

        async def receive() -> Any:
            return coming.pop() if coming else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message.get("body"):
                self.held_when_sent = self.door.held.nbytes
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"x-api-key", TOKEN.encode())]
        scope = {
            "type": "http", "method": "POST", "path": path, "root_path": "",
            "query_string": b"", "headers": headers, "client": ("1", 5),
        }  # fmt: skip
        app = ProxiedHttp(application(self.face, HealthServicer("guided", 1), {}))
        await app(scope, receive, send)
        start, *bodies = sent
        return start["status"], b"".join(message["body"] for message in bodies)


def body(prompts: list[str], **fields: Any) -> dict[str, Any]:
    return {"model": "no model", "prompt": prompts, "max_tokens": 1000, **fields}


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.readers.close()


def test_scores_of_all_prompts_are_held_until_they_are_sent(rig: Rig) -> None:
    status, _ = rig.post(body(["hello"] * 3, logprobs=20))
    assert status == 200
    assert rig.held_when_sent >= 3 * 1000 * 21 * 512
    assert rig.door.held.nbytes == 0


def test_scores_that_fit_alone_and_not_together_are_refused(rig: Rig) -> None:
    assert rig.post(body(["x"], logprobs=20, max_tokens=10_000))[0] == 200
    status, told = rig.post(body(["x"] * 2, logprobs=20, max_tokens=10_000))
    error = json.loads(told)["error"]
    assert (status, error["param"]) == (400, "max_tokens")
    assert "2 x 10000 tokens" in error["message"]
    assert error["message"].endswith("or the number of prompts or answers")
    assert len(rig.engine.requests) == 1


# Answers that end before the others


class Drawing(Scoring):
    """Streams several answers, each of which ends with its log-probabilities."""

    async def stream(
        self,
        request: GenerationRequest,
        received: float,
        client: str = "",
        *,
        is_watched: bool = False,
    ) -> AsyncGenerator[StreamEvent, None]:
        del received, client, is_watched
        scores = (SCORED,) * (request.max_tokens or 0)
        ended = tuple(
            CandidateResult(index, "a", (), FinishReason.LENGTH, 0.0, logprobs=scores)
            for index in range(request.n)
        )
        for one in ended:
            yield Delta("", "a", index=one.index, ended=one)
        first = ended[0]
        yield GenerationResult(
            "a", (), first.finish_reason, Usage(), 0.0, logprobs=scores, candidates=ended
        )


def test_scores_that_were_streamed_do_not_count_again_at_the_end() -> None:
    """Two of these may be held, and no more."""
    rig = Rig(Drawing())
    drawn = body(["x"], n=2, temperature=1, logprobs=20, max_tokens=6000, stream=True)
    status, told = rig.post(drawn)
    rig.readers.close()
    assert status == 200
    assert told.endswith(b"data: [DONE]\n\n")
    assert rig.held_when_sent < 6000 * 21 * 512


# What the prompts share


def test_a_constraint_of_many_prompts_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[GenerationRequest]()

    def encode(request: GenerationRequest) -> Any:
        encoded.append(request)
        return encode_request(request)

    monkeypatch.setattr(call, "encode_request", encode)
    rig = Rig(WalkingModel())
    assert rig.post(body(["x"] * 20, guided_choice=["a", "b"]))[0] == 200
    assert len(encoded) == 2  # as the body is read, and for the lines of the log
    schema = json.dumps({"type": "string", "description": "x" * 3_000_000})
    status, told = rig.post(body(["x"] * 64, guided_json=schema))
    rig.readers.close()
    assert status == 400
    assert "the call holds " in json.loads(told)["error"]["message"]
    assert len(encoded) == 3


def test_a_long_first_prompt_is_not_counted_for_each() -> None:
    rig = Rig(WalkingModel())
    assert rig.post(body(["x" * 3_000_000, *["y"] * 63]))[0] == 200
    rig.readers.close()
    assert rig.held_when_sent < 20_000_000


# Quotas


def test_prompts_that_a_quota_never_allows_together_do_not_begin(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f'[me]\nsha256 = "{token_hash(TOKEN)}"\nrequests_in_flight = 2\n')
    rig = Rig(WalkingModel(), TokenBook(file))
    assert rig.post(body(["x"] * 2))[0] == 200
    status, told = rig.post(body(["x"] * 3))
    rig.readers.close()
    error = json.loads(told)["error"]
    assert (status, error["param"], len(rig.engine.requests)) == (400, "prompt", 2)
    assert error["message"] == (
        "the prompts need 3 of requests_in_flight at once, above the 2 of the token of me; "
        "split them over several calls"
    )


# Errors about prompts


class Short(WalkingModel):
    """Has no room for any prompt."""

    def check_prompt(self, request: GenerationRequest) -> None:
        raise LimitExceededError(f"{len(request.prompt)} is too long", limit=1, field="prompt")


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("/v1/completions", {"prompt": "x"}, "prompt"),
        ("/v1/chat/completions", {"messages": [USER]}, "messages"),
        ("/v1/responses", {"input": "x"}, "input"),
        ("/v1/messages", {"messages": [USER], "max_tokens": 5}, "messages"),
        ("/v1/messages/count_tokens", {"messages": [USER]}, "messages"),
    ],
)
def test_a_long_prompt_is_named_as_in_the_body(
    path: str, fields: dict[str, Any], field: str
) -> None:
    rig = Rig(Short())
    status, told = rig.post({"model": "no model", **fields}, path)
    rig.readers.close()
    error = json.loads(told)["error"]
    assert (status, error.get("param", error.get("guided", {}).get("param"))) == (400, field)
