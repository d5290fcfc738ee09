"""The surface of the client: every call of the service, and nothing of the transport."""

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
from guided.client.grammars import AsyncGrammars, Grammars
from guided.client.options import Options
from guided.client.request import Request
from guided.spec import (
    Enforcement,
    FinishReason,
    Forcing,
    FormatMode,
    KeyOrder,
    OnIncomplete,
    Rank,
    RegexDialect,
    Spelling,
    TextFit,
)
from guided.spec.tagged import Calls
from guided.stats import Phase
from guided.v1 import generation_pb2 as pb
from guided.v1 import grammar_pb2, model_pb2
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
        ("generation", pb.DESCRIPTOR, "GenerationService"),
        ("models", model_pb2.DESCRIPTOR, "ModelService"),
    ],
)
def test_the_client_makes_every_call_of_the_services_and_no_other(
    client: type, stub: str, file: Any, service: str
) -> None:
    """Except the batch, which makes a call for each request, without a limit to their number."""
    methods = {method.name for method in file.services_by_name[service].methods}
    assert calls_of(client, stub) == methods - {"GenerateBatch"}


@pytest.mark.parametrize("grammars", [Grammars, AsyncGrammars])
def test_grammars_make_every_call_of_their_service_and_no_other(grammars: type) -> None:
    tree = ast.parse(inspect.getsource(grammars))
    looked_up = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self._services.grammars"
    }
    methods = grammar_pb2.DESCRIPTOR.services_by_name["GrammarService"].methods
    assert looked_up == {method.name for method in methods}


def public_methods(client: type) -> set[str]:
    return {name for name, member in vars(client).items() if name[0] != "_" and callable(member)}


@pytest.mark.parametrize(
    ("blocking", "asynchronous"), [(Client, AsyncClient), (Grammars, AsyncGrammars)]
)
def test_both_clients_have_the_same_methods_with_the_same_parameters(
    blocking: type, asynchronous: type
) -> None:
    assert public_methods(blocking) == public_methods(asynchronous)
    for name in public_methods(blocking):
        one, other = (inspect.signature(getattr(kind, name)) for kind in (blocking, asynchronous))
        assert one.parameters == other.parameters


@pytest.mark.parametrize("client", [Client, AsyncClient, Grammars, AsyncGrammars])
def test_no_signature_names_a_type_of_the_transport(client: type) -> None:
    made = {"__init__"} if client in (Client, AsyncClient) else set[str]()
    for name in public_methods(client) | made:
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
        (Enforcement, pb.Enforcement),
        (FinishReason, pb.FinishReason),
        (Forcing, pb.Forcing),
        (FormatMode, pb.FormatMode),
        (KeyOrder, pb.KeyOrder),
        (OnIncomplete, pb.OnIncomplete),
        (Phase, model_pb2.Phase),
        (Rank, pb.Rank),
        (RegexDialect, pb.RegexDialect),
        (Spelling, pb.Spelling),
        (TextFit, grammar_pb2.TextFit),
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
