"""Callers over HTTP of every kind, each of which makes one call and returns its outcome."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from guided.spec import Choice, Ebnf, Lark, Regex
from tests.kit.hostile_options import hostile_options
from tests.kit.nonces import Asked, MistoldError, draw_asked

__all__ = [
    "Web",
    "model_of",
    "web_dead_reader",
    "web_hostile",
    "web_leaver",
    "web_plain",
    "web_slow_reader",
    "web_streamed",
]

_PATH: Final = "/v1/chat/completions"
_NOT_NOW: Final = (429, 503)
"""Statuses that any caller may get: the server is full, or without an engine."""


@dataclass(frozen=True)
class Web:
    """A server's interface over HTTP, and a client of it for some callers."""

    url: str
    model: str
    client: httpx2.AsyncClient

    @classmethod
    def of(cls, url: str) -> Web:
        """Make a client with as many connections as calls."""
        limits = httpx2.Limits(max_connections=None)
        return cls(
            url, model_of(url), httpx2.AsyncClient(base_url=url, timeout=None, limits=limits)
        )

    def body(self, prompt: str, options: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """The body of a request of the SDK; an unset temperature is sent as 0."""
        said = {name: value for name, value in options.items() if name in ("max_tokens", "seed")}
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "structured_outputs": _outputs(options),
            "temperature": options.get("temperature", 0),
            **said,
            **fields,
        }


def model_of(url: str) -> str:
    """The name of a server's model."""
    name: str = httpx2.get(f"{url}/v1/models", timeout=60).json()["data"][0]["id"]
    return name


def _outputs(options: dict[str, Any]) -> dict[str, Any]:
    match options.get("grammar"):
        case None:
            return {"json": options["schema"]}
        case re.Pattern(pattern=pattern) | Regex(pattern=pattern):
            return {"regex": pattern}
        case Choice(options=texts):
            return {"choice": [*texts]}
        case Lark(text=text) | Ebnf(text=text):
            return {"grammar": text}
    raise AssertionError(f"{options} has no form over HTTP")


async def web_plain(web: Web, rng: random.Random) -> str:
    """Reads an answer as a whole."""
    asked = draw_asked(rng)
    response = await web.client.post(_PATH, json=web.body(asked.prompt, asked.options))
    if response.status_code != 200:
        return await _turned_away(response)
    return asked.checked(response.json()["choices"][0]["message"]["content"])


async def web_streamed(web: Web, rng: random.Random) -> str:
    """Reads an answer as it grows."""
    return await _read(web, draw_asked(rng), pause=0.0)


async def web_slow_reader(web: Web, rng: random.Random) -> str:
    """The same, slowly."""
    return await _read(web, draw_asked(rng), pause=rng.choice([0.05, 0.2]))


async def web_leaver(web: Web, rng: random.Random) -> str:
    """Hangs up after some lines."""
    asked, left = draw_asked(rng), rng.choice([0, 2, 6])
    body = web.body(asked.prompt, asked.options, stream=True)
    async with web.client.stream("POST", _PATH, json=body) as response:
        if response.status_code != 200:
            return await _turned_away(response)
        async for _ in response.aiter_lines():
            if (left := left - 1) < 0:
                break
    return "left"


async def web_dead_reader(web: Web, rng: random.Random) -> str:
    """Requests a stream, reads nothing, and vanishes without closing it."""
    asked, place = draw_asked(rng), urlsplit(web.url)
    body = json.dumps(web.body(asked.prompt, asked.options, stream=True)).encode()
    head = (
        f"POST {_PATH} HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    # Its receive buffer is small, so that the server has to wait for it.
    _, writer = await asyncio.open_connection(place.hostname, place.port, limit=1)
    writer.write(head.encode() + body)
    await asyncio.sleep(rng.choice([0.1, 2.0, 5.0]))
    writer.transport.abort()
    return "left"


async def web_hostile(web: Web, rng: random.Random) -> str:
    """Sends a constraint that is wrong, cannot be met, or takes too long."""
    body = web.body("x", {**hostile_options(rng), "max_tokens": 64})
    try:
        response = await web.client.post(_PATH, json=body, timeout=rng.choice([2.0, 30.0]))
    except httpx2.ReadTimeout:
        return "left"
    if response.status_code == 200:
        return "answered"
    return await _turned_away(response, 400)


async def _read(web: Web, asked: Asked, pause: float) -> str:
    body = web.body(asked.prompt, asked.options, stream=True)
    text, is_ended = "", False
    async with web.client.stream("POST", _PATH, json=body) as response:
        if response.status_code != 200:
            return await _turned_away(response)
        async for line in response.aiter_lines():
            is_ended = is_ended or line == "data: [DONE]"
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                return _cut_off(event["error"])
            text += "".join(each["delta"].get("content") or "" for each in event["choices"])
            await asyncio.sleep(pause)
    if not is_ended:
        raise MistoldError(f"a stream ended after {text!r}, and nobody said so")
    return asked.checked(text)


async def _turned_away(response: httpx2.Response, *expected: int) -> str:
    """The status with which a call ended, once the caller may call again."""
    status = response.status_code
    told = (await response.aread()).decode()
    if status not in (*_NOT_NOW, *expected):
        raise MistoldError(f"told {status}: {told[:500]}")
    await asyncio.sleep(float(response.headers.get("retry-after-ms", 0)) / 1000)
    return str(status)


def _cut_off(error: dict[str, Any]) -> str:
    """The error that ended a stream, which says that the engine is gone."""
    if error["code"] != "unavailable":
        raise MistoldError(f"told {error}")
    return "cut off"
