"""The messages by which clients ask for the tokens of a prompt, and for the text of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from guided.client.request import Request
from guided.errors import RequestError
from guided.spec.option import check_kind
from guided.v1 import model_pb2
from guided.wire import encodable
from guided.wire_request import encode_request

__all__ = ["text_message", "tokens_message"]

_MAX_INT32 = 2**31 - 1


def tokens_message(request: Request[Any], *, texts: bool) -> model_pb2.TokenizeRequest:
    """Return the message that asks for the tokens of a request's prompt."""
    check_kind(texts, bool, "texts")
    return model_pb2.TokenizeRequest(request=encode_request(request.specification), texts=texts)


def text_message(tokens: Iterable[int], model: str) -> model_pb2.DetokenizeRequest:
    """Return the message that asks for the text of tokens; raises RequestError for other things."""
    if not isinstance(tokens, Iterable) or isinstance(tokens, str | bytes | bytearray):
        raise RequestError(
            f"tokens is {tokens!r:.80}, which is not a collection of integers",
            field="tokens",
            hint="pass a list of tokens",
        )
    ids = []
    for index, token in enumerate(tokens):
        check_kind(token, int, f"tokens[{index}]")
        if not 0 <= token <= _MAX_INT32:
            raise RequestError(f"tokens[{index}] is {token}, which is no token", field="tokens")
        ids.append(int(token))
    with encodable("model"):
        return model_pb2.DetokenizeRequest(tokens=ids, model=model)
