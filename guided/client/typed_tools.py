"""Tools of Python types: functions and models become tools, and their calls become values.

::

    def weather(city: str, days: int = 1)    a function
    {"city": ..., "days": ...}               a TypedDict of its parameters, so its schema
    {"city":"Oslo"}                          the arguments of a call
    partial(weather, city="Oslo", days=1)    the value of the call
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter
from types import SimpleNamespace
from typing import Annotated, Any, Final, cast, get_type_hints

from pydantic import Field, TypeAdapter
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from guided.client.reasons import reasons_of
from guided.errors import InternalServiceError, RequestError
from guided.response_types.schema_text import adapter_of, is_response_type, schema_of_adapter
from guided.spec import Tool, ToolCall

__all__ = ["TypedTool", "function_tool", "model_tool", "typed_calls"]

_WITHOUT_NAME: Final[Mapping[Any, str]] = {
    Parameter.POSITIONAL_ONLY: "has no name in a call",
    Parameter.VAR_POSITIONAL: "stands for any number of arguments",
    Parameter.VAR_KEYWORD: "stands for arguments of any name",
}
"""What is wrong with the parameters that no member of a JSON object can stand for."""


@dataclass(frozen=True, slots=True)
class TypedTool:
    """A tool, and what reads the arguments of its calls."""

    tool: Tool
    adapter: TypeAdapter[Any] | None = None
    """Of the type of its arguments; ``None`` if only a schema describes them."""
    function: Callable[..., object] | None = None
    """The function that takes them, if it is one."""

    def value(self, arguments: str, context: Any) -> Any:
        """Return the value of a call; raises what the type's validators raise.

        ``context`` is passed to the validators.
        """
        if self.adapter is None:
            return json.loads(arguments)
        value = self.adapter.validate_json(arguments, context=context)
        return value if self.function is None else partial(self.function, **value)


def model_tool(kind: type) -> TypedTool:
    """Return the tool of a pydantic model or another class; raises ``RequestError``."""
    adapter, schema = _described(kind, f"the tool {kind.__name__}")
    # The type itself decides whether further members are kept.
    return TypedTool(
        Tool(kind.__name__, inspect.cleandoc(kind.__doc__ or ""), schema, False), adapter
    )


def function_tool(function: Callable[..., object]) -> TypedTool:
    """Return the tool of a function: its name, its docstring and the types of its parameters.

    Raises ``RequestError``, which names the parameter, for one that a call cannot pass by name or
    that no JSON Schema describes.
    """
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise RequestError(
            f"the tool {function!r} has no name", field="tools", hint="pass a function or a method"
        )
    annotations = _annotations(function, name)
    # Names of fields of a model may not be those of its methods; members of a TypedDict may.
    arguments = cast("Any", TypedDict)(name, annotations)
    try:
        adapter, schema = _described(arguments, f"the tool {name}")
    except RequestError:
        for parameter, annotation in annotations.items():
            _described(annotation, f"the parameter {parameter!r} of the tool {name}")
        raise
    return TypedTool(Tool(name, inspect.getdoc(function) or "", schema, False), adapter, function)


def typed_calls(
    calls: Iterable[ToolCall], tools: Mapping[str, TypedTool], context: Any
) -> tuple[ToolCall, ...]:
    """Return calls with their values; raises ``ValueError`` with all reasons if any is refused."""
    typed, refusals = [], []
    cause: Exception | None = None
    for call in calls:
        if (tool := tools.get(call.name)) is None:
            raise InternalServiceError(
                f"the server sent a call of {call.name!r}, which is none of the request's tools"
            )
        try:
            typed.append(replace(call, value=tool.value(call.arguments, context)))
        except Exception as error:  # a validator may raise anything
            reasons = reasons_of(error, "its arguments")
            refusals.append(f"in the call of {call.name}, {reasons}")
            cause = error
    if refusals:
        raise ValueError("; ".join(refusals)) from cause
    return tuple(typed)


def _described(kind: Any, subject: str) -> tuple[TypeAdapter[Any], str]:
    """Return the adapter and the schema of a type; ``subject`` says in errors what has it."""
    try:
        adapter = adapter_of(kind)
        return adapter, schema_of_adapter(adapter)
    except RequestError as error:
        raise RequestError(
            f"{subject}: {error.message}",
            field="tools",
            hint="use types that pydantic can describe, or pass a guided.Tool",
        ) from error


def _annotations(function: Callable[..., object], name: str) -> dict[str, Any]:
    """Return the types of a function's parameters with their defaults, by name and in order."""
    try:
        parameters = inspect.signature(function).parameters.values()
        # Not the result's type, which may be imported for type checkers alone.
        written = SimpleNamespace(__annotations__={one.name: one.annotation for one in parameters})
        names = getattr(inspect.unwrap(function), "__globals__", {})
        hints = get_type_hints(written, names, include_extras=True)
    except Exception as error:  # an annotation is any expression
        raise RequestError(
            f"the parameters of the tool {name} cannot be read: {error}",
            field="tools",
            hint="import and define their types at the top of the function's module",
        ) from error
    return {one.name: _annotation(one, hints[one.name], name) for one in parameters}


def _annotation(parameter: Parameter, hint: Any, tool: str) -> Any:
    fault, way_out = _WITHOUT_NAME.get(parameter.kind), "name each parameter"
    if fault is None and (parameter.annotation is Parameter.empty or not is_response_type(hint)):
        fault, way_out = "has no type", f"write {parameter.name}: TYPE"
    if fault is not None:
        raise RequestError(
            f"the parameter {parameter.name!r} of the tool {tool} {fault}",
            field="tools",
            hint=f"{way_out}, or pass a guided.Tool",
        )
    default = parameter.default
    if default is Parameter.empty:
        return hint
    return Annotated[hint, default if isinstance(default, FieldInfo) else Field(default=default)]
