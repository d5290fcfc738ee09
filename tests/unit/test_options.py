"""Every option is declared once, and no layer between a caller and the engine lacks it."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

import pytest

from guided.cli.check import check
from guided.cli.generate import generate
from guided.client import Client, RawPrompt, Request
from guided.client.options import Options
from guided.spec import Beams, GenerationRequest, JsonOptions, JsonSchema, Message, Sampling
from guided.spec.option import options_of
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request, encode_request

_CLIENT_ONLY = {
    *("grammar", "json_options", "documents", "request_id", "max_retries", "context"),
    *("tools", "tool_choice", "parallel_tool_calls", "reasoning"),
}
"""The client makes the constraint of the first three; an id is a name; tries, and what validators
get, are its own; it makes the tools of those about tools, and the reasoning of a number or
nothing."""
_WORDS = {"rank", "on_incomplete", "verification"}
"""Enumerations whose members may be given as plain words."""
_BESIDE = {"prompt", "constraint", "sampling", "tools", "reasoning"}
"""Fields of a request that are no options."""


@dataclass(frozen=True)
class Declared:
    """An option, and a value that is not its default."""

    of: type
    name: str
    value: Any
    needs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.of.__name__}.{self.name}"


DECLARED = (
    Declared(Sampling, "temperature", 0.5),
    Declared(Sampling, "top_k", 3),
    Declared(Sampling, "top_p", 0.5),
    Declared(Sampling, "seed", 2**62),
    Declared(Sampling, "min_p", 0.5),
    Declared(Sampling, "typical_p", 0.5),
    Declared(Sampling, "epsilon_cutoff", 0.5),
    Declared(Sampling, "eta_cutoff", 0.5),
    Declared(Sampling, "repetition_penalty", 1.5),
    Declared(Sampling, "presence_penalty", 0.5),
    Declared(Sampling, "frequency_penalty", 0.5),
    Declared(Sampling, "no_repeat_ngram_size", 3),
    Declared(Sampling, "logit_bias", ((5, 1.5), (7, -2.0))),
    Declared(Sampling, "penalty_alpha", 0.5, (("top_k", 4),)),
    Declared(GenerationRequest, "max_tokens", 5),
    Declared(GenerationRequest, "default_max_tokens", 5),
    Declared(GenerationRequest, "min_tokens", 4),
    Declared(GenerationRequest, "forcing", "strict"),
    Declared(GenerationRequest, "show_schema", True),
    Declared(GenerationRequest, "stop", ("a", "b")),
    Declared(GenerationRequest, "stop_tokens", (5, 7)),
    Declared(GenerationRequest, "include_stop", True, (("stop", ("a",)),)),
    Declared(GenerationRequest, "stop_after", 3, (("stop", ("a",)),)),
    Declared(GenerationRequest, "top_logprobs", 0),
    Declared(GenerationRequest, "priority", -5),
    Declared(GenerationRequest, "deadline", 1.5),
    Declared(GenerationRequest, "n", 2, (("temperature", 1.0),)),
    Declared(GenerationRequest, "best_of", 3, (("temperature", 1.0),)),
    Declared(GenerationRequest, "rank", "reward", (("temperature", 1.0), ("best_of", 2))),
    Declared(GenerationRequest, "beams", Beams(2, 0.5, early_stopping=True)),
    Declared(GenerationRequest, "cache_salt", "salt"),
    Declared(GenerationRequest, "model", "coder"),
    Declared(GenerationRequest, "adapter", "sql"),
    Declared(GenerationRequest, "on_incomplete", "error"),
    Declared(GenerationRequest, "drafters", ("lookup",)),
    Declared(GenerationRequest, "max_drafted", 4),
    Declared(GenerationRequest, "draft_widths", (2, 1)),
    Declared(GenerationRequest, "verification", "rejection"),
    Declared(GenerationRequest, "allow_special_tokens", True),
    Declared(
        GenerationRequest,
        "continue_final_message",
        True,
        (("prompt", (Message("user", "x"), Message("assistant", "y"))),),
    ),
    Declared(GenerationRequest, "heal", True, (("prompt", RawPrompt("x")),)),
    Declared(GenerationRequest, "report", True),
    Declared(JsonOptions, "whitespace", None),
    Declared(JsonOptions, "key_order", "any"),
    Declared(JsonOptions, "format", "annotate"),
    Declared(JsonOptions, "spelling", "any"),
    Declared(JsonOptions, "max_string_length", 7),
    Declared(JsonOptions, "max_number_digits", None),
    Declared(JsonOptions, "unknown_keywords", "refuse"),
    Declared(JsonOptions, "max_array_items", 7),
    Declared(JsonOptions, "max_additional_members", 7),
)
_each_option = pytest.mark.parametrize("option", DECLARED, ids=str)
_of_requests = pytest.mark.parametrize(
    "option", [each for each in DECLARED if each.of is not JsonOptions], ids=str
)


def test_the_table_has_every_option() -> None:
    """A new option needs a line in it; then every test below shows which layer lacks it."""
    for kind in (Sampling, GenerationRequest, JsonOptions):
        listed = [each.name for each in DECLARED if each.of is kind]
        assert listed == list(options_of(kind))
        assert {each.name for each in fields(kind)} - {*listed} <= _BESIDE
    assert {*options_of(Beams)} == {each.name for each in fields(Beams)}


@_each_option
def test_an_option_has_a_text_and_a_field_in_its_message(option: Declared) -> None:
    messages: dict[type, Any] = {
        Sampling: pb.Sampling,
        GenerationRequest: pb.GenerateRequest,
        JsonOptions: pb.JsonOptions,
    }
    message = messages[option.of]
    assert options_of(option.of)[option.name].text.endswith(".")
    assert option.name in message.DESCRIPTOR.fields_by_name


def test_no_message_has_a_field_that_is_no_option() -> None:
    for kind, message in (
        (Sampling, pb.Sampling),
        (Beams, pb.Beams),
        (JsonOptions, pb.JsonOptions),
        (GenerationRequest, pb.GenerateRequest),
    ):
        names = {*message.DESCRIPTOR.fields_by_name} - {"text", "tokens", "messages", "request_id"}
        names -= _BESIDE
        assert names == {*options_of(kind)}


@_of_requests
def test_the_client_takes_an_option_with_the_default_of_its_field(option: Declared) -> None:
    (field,) = (each for each in fields(option.of) if each.name == option.name)
    parameter = inspect.signature(Request).parameters[option.name]
    assert field.default is not MISSING
    if option.name != "logit_bias":  # a mapping there
        assert parameter.default == field.default


@_of_requests
def test_type_checkers_see_an_option_with_the_type_of_its_field(option: Declared) -> None:
    seen, declared = get_type_hints(Options)[option.name], get_type_hints(option.of)[option.name]
    # The accepted types are wider than the kept one.
    wider = {"logit_bias", "stop", "stop_tokens", "drafters", "draft_widths"} | _WORDS
    assert seen == declared or option.name in wider


def test_type_checkers_see_no_other_options() -> None:
    names = {each.name for each in DECLARED if each.of is not JsonOptions}
    assert {*get_type_hints(Options)} == names | _CLIENT_ONLY
    assert "options" in inspect.signature(Client.generate).parameters


@_each_option
def test_an_option_reaches_the_engine(option: Declared) -> None:
    """From the client's keyword argument through the message to the engine."""
    given: dict[str, Any] = dict(option.needs) | {option.name: option.value}
    prompt = given.pop("prompt", "x")
    if option.of is JsonOptions:
        request = Request(prompt, schema="{}", json_options=JsonOptions(**given))
    else:
        if option.name == "logit_bias":
            given[option.name] = dict(option.value)
        request = Request(prompt, schema="{}", **given)
    arrived = decode_request(encode_request(request.specification))
    assert arrived == request.specification
    holder: Any = arrived
    if option.of is JsonOptions:
        assert isinstance(arrived.constraint, JsonSchema)
        holder = arrived.constraint.options
    elif option.of is Sampling:
        holder = arrived.sampling
    assert getattr(holder, option.name) == option.value


@_each_option
def test_an_option_has_a_flag_with_its_default(option: Declared) -> None:
    commands: list[Any] = [check, generate] if option.of is JsonOptions else [generate]
    (field,) = (each for each in fields(option.of) if each.name == option.name)
    for command in commands:
        default = inspect.signature(command).parameters[option.name].default
        if isinstance(field.default, tuple):
            assert default is None  # as for a flag that may be repeated
        elif option.of is JsonOptions and isinstance(field.default, int):
            assert default == str(field.default)
        else:
            assert default == field.default


def test_no_command_has_a_flag_of_beams_less() -> None:
    assert {*options_of(Beams)} - {"width"} <= {*inspect.signature(generate).parameters}
