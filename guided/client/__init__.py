"""The Python SDK: a blocking and an asyncio client of the service."""

from guided.client.answer import Answer, Candidate, Completed
from guided.client.async_client import AsyncClient
from guided.client.client import Client
from guided.client.growing_json import ValueEvent
from guided.client.incoming import AsyncStream, Stream
from guided.client.prompt import RawPrompt, TokenPrompt
from guided.client.readiness import wait_until_serving
from guided.client.request import Request
from guided.client.scores import Score
from guided.client.security import Tls
from guided.client.stream_events import (
    AnswerEnded,
    ArgumentsGrown,
    CallBegun,
    CallEnded,
    StreamEvent,
    TextGrown,
    ThoughtsGrown,
)

__all__ = [
    "Answer",
    "AnswerEnded",
    "ArgumentsGrown",
    "AsyncClient",
    "AsyncStream",
    "CallBegun",
    "CallEnded",
    "Candidate",
    "Client",
    "Completed",
    "RawPrompt",
    "Request",
    "Score",
    "Stream",
    "StreamEvent",
    "TextGrown",
    "ThoughtsGrown",
    "Tls",
    "TokenPrompt",
    "ValueEvent",
    "wait_until_serving",
]
