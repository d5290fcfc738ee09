"""The Python SDK: a blocking and an asyncio client of the service."""

from guided.client.answer import Answer, Candidate, Completed
from guided.client.async_client import AsyncClient
from guided.client.client import Client
from guided.client.growing_json import ValueEvent
from guided.client.incoming import AsyncStream, Stream
from guided.client.prompt import RawPrompt
from guided.client.readiness import wait_until_serving
from guided.client.request import Request
from guided.client.security import Tls

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncStream",
    "Candidate",
    "Client",
    "Completed",
    "RawPrompt",
    "Request",
    "Stream",
    "Tls",
    "ValueEvent",
    "wait_until_serving",
]
