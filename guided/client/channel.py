"""How the client's channels behave: retries and sizes."""

from __future__ import annotations

import json

__all__ = ["CHANNEL_OPTIONS"]

_RETRY_POLICY = {
    # The first attempt and two more. A server that knows better when to come again says so in
    # its trailing metadata, and the transport obeys.
    "maxAttempts": 3,
    "initialBackoff": "0.2s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
}

_SERVICE_CONFIG = {
    "methodConfig": [
        {"name": [{"service": "guided.v1.GenerationService"}], "retryPolicy": _RETRY_POLICY}
    ]
}

CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    # The server bounds what it is sent, with an error that names the limit; the client trusts
    # what it asked for.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
"""Options of both the blocking and the asyncio channel."""
