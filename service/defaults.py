"""Fills in what a request leaves open and the settings of a server decide.

Over gRPC the settings become part of the message before it is read, so that a stored constraint, a
check and an answer have the same. A setting that equals the default needs no filling in: that is
what a message without it means.
"""

from __future__ import annotations

from dataclasses import replace

from guided.spec import JsonOptions, OnIncomplete, UnknownKeywords
from guided.spec.tools import ToolUse
from guided.v1 import generation_pb2 as pb
from guided.wire import number_of
from guided.wire_request import has_schema, parts_of
from guided_service.config import ServerConfig

__all__ = ["fill_constraint", "fill_request", "filled_options", "filled_tools"]


def fill_request(message: pb.GenerateRequest, config: ServerConfig) -> None:
    """Fill in a request, and the schemas of its constraint and its tools."""
    word = OnIncomplete(config.on_incomplete)
    if not message.on_incomplete and word is not OnIncomplete.CLOSE:
        message.on_incomplete = number_of(word, pb.OnIncomplete.DESCRIPTOR)
    if message.HasField("constraint"):
        fill_constraint(message.constraint, config)
    number = _number_of_unknown(config)
    for tool in message.tools.tools if number else ():
        tool.unknown_keywords = tool.unknown_keywords or number


def fill_constraint(message: pb.Constraint, config: ServerConfig) -> None:
    """Fill in the options of every schema in a constraint."""
    if number := _number_of_unknown(config):
        _fill_schemas(message, number)


def _number_of_unknown(config: ServerConfig) -> pb.UnknownKeywords.ValueType:
    """Return the number of the word for unknown keywords; 0 for the one that is the default."""
    word = UnknownKeywords(config.unknown_keywords)
    if word is UnknownKeywords.NOTE:
        return pb.UNKNOWN_KEYWORDS_UNSPECIFIED
    number: pb.UnknownKeywords.ValueType = number_of(word, pb.UnknownKeywords.DESCRIPTOR)
    return number


def _fill_schemas(message: pb.Constraint, number: pb.UnknownKeywords.ValueType) -> None:
    for _, part in parts_of(message):
        _fill_schemas(part, number)
    if has_schema(message) and not message.json_options.unknown_keywords:
        message.json_options.unknown_keywords = number


def filled_options(options: JsonOptions, config: ServerConfig) -> JsonOptions:
    """Return the options of a schema with what they leave open."""
    word = UnknownKeywords(config.unknown_keywords)
    if options.unknown_keywords is not None or word is UnknownKeywords.NOTE:
        return options
    return replace(options, unknown_keywords=word)


def filled_tools(use: ToolUse | None, options: JsonOptions) -> ToolUse | None:
    """Return the tools of a request with what these options say of their schemas."""
    if use is None or options.unknown_keywords is None:
        return use
    word = options.unknown_keywords
    return replace(use, tools=tuple(replace(tool, unknown_keywords=word) for tool in use.tools))
