"""Calls whose types a type checker infers; nothing here is run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Literal, assert_type

from pydantic import BaseModel, Field, TypeAdapter

import guided


class Person(BaseModel):
    name: str


Word = Literal["yes", "no"]


def blocking(client: guided.Client) -> None:
    assert_type(client.generate("?", Person).value, Person)
    assert_type(client.generate("?", list[Person]).value, list[Person])
    assert_type(client.generate("?", Literal["yes", "no"]).value, Word)
    assert_type(client.generate("?", int | None).value, int | None)
    assert_type(client.generate("?", Annotated[int, Field(gt=3)]).value, int)
    assert_type(client.generate("?").value, Any)
    # Adapters are accepted, but a parameter type that allowed them would hide the types of unions.
    client.generate("?", TypeAdapter(dict[str, int]))  # type: ignore[arg-type]
    assert_type(client.generate("?", schema="true").value, Any)
    assert_type(client.stream("?", int | str), guided.Stream[int | str])
    client.generate("?", Person, max_token=3)  # type: ignore[call-arg]
    client.generate("?", Person, max_tokens="3")  # type: ignore[arg-type]


def asynchronous(client: guided.AsyncClient) -> None:
    answer: Awaitable[guided.Answer[int | None]] = client.generate("?", int | None)
    assert_type(client.stream("?", Literal["yes", "no"]), guided.AsyncStream[Word])
    del answer


def requests() -> None:
    assert_type(guided.Request("?", Person), guided.Request[Person])
    assert_type(guided.Request("?", int | None), guided.Request[int | None])
    assert_type(guided.Request("?", Literal["yes", "no"]), guided.Request[Word])
    guided.Request("?", TypeAdapter(int), max_tokens=3)  # type: ignore[arg-type]
    assert_type(guided.Request("?", schema={"type": "null"}), guided.Request[Any])
    guided.check(int | None)
    guided.check(Literal["yes", "no"])
    guided.check(5)  # type: ignore[arg-type]
