"""A request as the client's user writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Generic, TypedDict, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from guided.client.answer import Answer
from guided.client.prompt import Prompt, spoken_prompt
from guided.errors import AnswerValidationError, RequestError
from guided.response_types.adapter import adapter_of, schema_of_adapter
from guided.response_types.given_schema import document_texts, schema_text
from guided.spec import Forcing, GenerationRequest, JsonOptions, JsonSchema, Sampling

__all__ = ["Options", "Request"]

T = TypeVar("T", default=Any, covariant=True)


class Options(TypedDict, total=False):
    """What may be said about a request besides its prompt and its constraint."""

    max_tokens: int
    """Budget of the answer in tokens, forced ones included; 256."""
    temperature: float
    """0, the default, takes the likeliest token."""
    top_k: int | None
    """Keep the k likeliest tokens; ``None`` keeps all."""
    top_p: float | None
    """Keep the least set of likeliest tokens whose probability reaches p; ``None`` keeps all."""
    seed: int | None
    """The same seed gives the same tokens; ``None`` draws one."""
    forcing: Forcing
    """Which tokens are taken without asking the model; canonical."""
    show_schema: bool
    """Tell the model the schema in a system message; only with a conversation."""
    json_options: JsonOptions
    """How JSON is written where its schema leaves that open; compact, in the schema's order."""
    documents: Mapping[str, str | Mapping[str, object]]
    """Other schemas that the schema may refer to, by URI; nothing is ever fetched."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """One answer to be made; ``T`` is the type of the answer's value.

    >>> Request("Invent a person.", Person, max_tokens=64)

    The constraint is the response model's schema, or ``schema``, or none. Everything is checked
    when the request is made: a wrong value raises ``RequestError`` before anything is sent.
    """

    prompt: Prompt
    response_model: type[T] | TypeAdapter[T] | None = None
    """Type of the value: whatever pydantic's ``TypeAdapter`` takes, or such an adapter, which
    tells a type checker what a union alone cannot."""
    schema: str | Mapping[str, object] | None = None
    """A JSON Schema instead of a response model; the value is then the parsed JSON."""
    max_tokens: int = field(default=256, kw_only=True)
    temperature: float = field(default=0.0, kw_only=True)
    top_k: int | None = field(default=None, kw_only=True)
    top_p: float | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    forcing: Forcing = field(default=Forcing.CANONICAL, kw_only=True)
    show_schema: bool = field(default=False, kw_only=True)
    json_options: JsonOptions = field(default_factory=JsonOptions, kw_only=True)
    documents: Mapping[str, str | Mapping[str, object]] = field(default_factory=dict, kw_only=True)
    specification: GenerationRequest = field(init=False, repr=False, compare=False)
    """The request as the engine knows it."""
    _adapter: TypeAdapter[T] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.response_model is not None and self.schema is not None:
            raise RequestError(
                "both response_model and schema are given",
                field="schema",
                hint="leave one out; the schema of a response model is its own",
            )
        self._check_kinds()
        adapter = None if self.response_model is None else adapter_of(self.response_model)
        text = None if self.schema is None else schema_text(self.schema)
        if adapter is not None:
            text = schema_of_adapter(adapter)
        specification = GenerationRequest(
            prompt=spoken_prompt(self.prompt),
            constraint=self._constraint(text),
            max_tokens=self.max_tokens,
            sampling=Sampling(self.temperature, self.top_k, self.top_p, self.seed),
            forcing=_forcing(self.forcing),
            show_schema=self.show_schema,
        )
        # The only way to set what is derived in a frozen value.
        object.__setattr__(self, "_adapter", adapter)
        object.__setattr__(self, "specification", specification)

    def _constraint(self, text: str | None) -> JsonSchema | None:
        documents = document_texts(self.documents)
        if text is not None:
            return JsonSchema(text, self.json_options, documents)
        for name, is_default in (
            ("json_options", self.json_options == JsonOptions()),
            ("documents", not documents),
        ):
            if not is_default:
                raise RequestError(f"{name} needs a response_model or a schema", field=name)
        return None

    def _check_kinds(self) -> None:
        for name, (kind, described, is_optional) in _KINDS.items():
            value = getattr(self, name)
            if value is None and is_optional:
                continue
            # Python counts True as 1; nobody who writes it means that.
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise RequestError(
                    f"{name} {value!r} is not {described}",
                    field=f"sampling.{name}" if name in _SAMPLING else name,
                    hint=f"pass {described}" + (" or None" if is_optional else ""),
                )

    def read(self, plain: Answer[str]) -> Answer[T]:
        """The answer whose value is read from its text, or ``AnswerValidationError``."""
        try:
            return replace(cast("Answer[Any]", plain), value=self._value(plain.text))
        except ValueError as error:
            raise AnswerValidationError(
                f"the answer {plain.text!r} is refused by its type: {_reasons(error)}",
                text=plain.text,
                finish_reason=plain.finish_reason,
                usage=plain.usage,
            ) from error

    def _value(self, text: str) -> T:
        if self._adapter is not None:
            return self._adapter.validate_json(text)
        return cast("T", text if self.schema is None else json.loads(text))


_KINDS: Mapping[str, tuple[type, str, bool]] = {
    "max_tokens": (Integral, "an integer", False),
    "temperature": (Real, "a number", False),
    "top_k": (Integral, "an integer", True),
    "top_p": (Real, "a number", True),
    "seed": (Integral, "an integer", True),
    "show_schema": (bool, "True or False", False),
    "json_options": (JsonOptions, "a guided.JsonOptions", False),
    "documents": (Mapping, "a mapping of URIs to schemas", False),
}
"""Of each option the type, its name in messages, and whether ``None`` is a value."""

_SAMPLING = ("temperature", "top_k", "top_p", "seed")


def _reasons(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False)
    )


def _forcing(name: str) -> Forcing:
    try:
        return Forcing(name)
    except ValueError as error:
        known = ", ".join(repr(forcing.value) for forcing in Forcing)
        raise RequestError(f"forcing {name!r} is none of {known}", field="forcing") from error
