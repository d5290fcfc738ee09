"""What the client shows: every call of the service, and nothing of the transport."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import typing
from typing import Any

import pytest

import guided.client
from guided.client import AsyncClient, Client
from guided.client.options import Options
from guided.client.request import Request
from guided.spec import (
    FinishReason,
    Forcing,
    FormatMode,
    KeyOrder,
    OnIncomplete,
    Rank,
    RegexDialect,
    Spelling,
)
from guided.spec.tagged import Calls
from guided.stats import Phase
from guided.v1 import generation_pb2 as pb
from guided.v1 import model_pb2
from guided.wire import member_of, number_of


def calls_of(client: type, stub: str) -> set[str]:
    """Names that a client's source looks up on one of its service stubs."""
    tree = ast.parse(inspect.getsource(sys.modules[client.__module__]))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == stub
    }


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("stub", "file", "service"),
    [
        ("_service", pb.DESCRIPTOR, "GenerationService"),
        ("_model_service", model_pb2.DESCRIPTOR, "ModelService"),
    ],
)
def test_the_client_makes_every_call_of_the_services_and_no_other(
    client: type, stub: str, file: Any, service: str
) -> None:
    """But for the batch: it makes a call for each request, which has no limit to their number."""
    methods = {method.name for method in file.services_by_name[service].methods}
    assert calls_of(client, stub) == methods - {"GenerateBatch"}


def public_methods(client: type) -> set[str]:
    return {name for name in vars(client) if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    assert public_methods(Client) == public_methods(AsyncClient)
    for name in public_methods(Client):
        blocking = inspect.signature(getattr(Client, name))
        asynchronous = inspect.signature(getattr(AsyncClient, name))
        assert blocking.parameters == asynchronous.parameters


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_no_signature_names_a_type_of_the_transport(client: type) -> None:
    for name in {*public_methods(client), "__init__"}:
        hints = typing.get_type_hints(getattr(client, name))
        assert "grpc" not in repr(hints), name
        assert "pb2" not in repr(hints), name


def test_every_public_name_is_listed_once_in_order() -> None:
    names = guided.client.__all__
    assert names == sorted(set(names))
    for name in names:
        assert "grpc" not in getattr(guided.client, name).__module__


def test_options_are_the_fields_of_a_request() -> None:
    fields = set(inspect.signature(Request).parameters) - {"prompt", "response_model", "schema"}
    assert set(Options.__annotations__) == fields


@pytest.mark.parametrize(
    ("words", "enumeration"),
    [
        (Calls, pb.Calls),
        (FinishReason, pb.FinishReason),
        (Forcing, pb.Forcing),
        (FormatMode, pb.FormatMode),
        (KeyOrder, pb.KeyOrder),
        (OnIncomplete, pb.OnIncomplete),
        (Phase, model_pb2.Phase),
        (Rank, pb.Rank),
        (RegexDialect, pb.RegexDialect),
        (Spelling, pb.Spelling),
    ],
)
def test_every_member_of_an_enumeration_has_its_number(words: Any, enumeration: Any) -> None:
    numbers = [number_of(word, enumeration.DESCRIPTOR) for word in words]
    assert sorted(numbers) == sorted(enumeration.values())[1:]
    assert [member_of(words, enumeration.DESCRIPTOR, number) for number in numbers] == list(words)
    assert member_of(words, enumeration.DESCRIPTOR, 0) is None


def test_errors_and_specification_load_no_transport() -> None:
    program = (
        "import sys, guided, guided.errors, guided.spec;"
        "sys.exit('grpc' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
