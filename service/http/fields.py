"""Fields of requests: those that are honoured, and a few others that change nothing here.

A field that is not listed causes an error that names it, so nothing that a caller requests is
ignored in silence. ``null`` is the same as leaving a field out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError
from typing_extensions import override

from guided.errors import RequestError
from guided.spec import MAX_STOPS, JsonOptions, OnIncomplete, Sampling, TokenId
from guided.spec.json_options import json_options_of
from guided_service.config import ServerConfig
from guided_service.defaults import filled_options
from guided_service.http.faults import MANY_UNKNOWN, refused
from guided_service.http.hints import HINTS
from guided_service.http.sent_names import CameFrom
from guided_service.http.unions import OneOfKinds

__all__ = [
    "Body",
    "Budget",
    "GenerationFields",
    "Given",
    "Listed",
    "ModelFields",
    "Off",
    "On",
    "SharedFields",
    "ThoughtsBudget",
    "TokenIdField",
    "given",
]

_MANY_BIASES: Final = 1024
_MANY_UNKNOWN: Final = 8
"""At most this many unknown fields of an object are left for pydantic to report one by one."""
_MOST_NAMED: Final = 3
"""How many fields are named if there are more."""
_Item = TypeVar("_Item")

Listed: TypeAlias = Annotated[list[_Item], Field(fail_fast=True)]
"""A list of which only the first faulty item is reported: reporting 50,000 would delay others."""

Stops: TypeAlias = Annotated[list[str], Field(max_length=MAX_STOPS)]


def _not_too_many(biases: object) -> object:
    """Count biases before validating them; a bound of pydantic would validate all of them first."""
    if isinstance(biases, dict) and len(biases) > _MANY_BIASES:
        told = {
            "field_type": "Dictionary",
            "max_length": _MANY_BIASES,
            "actual_length": len(biases),
        }
        raise PydanticKnownError("too_long", told)
    return biases


class Given(BaseModel):
    """A part of a request whose fields are all honoured."""

    hints: ClassVar[Mapping[str, str]] = {}
    """What to do instead of a refused field, by its name; of a whole body."""
    page: ClassVar[str] = "docs/openai.md"
    """The page that lists what is honoured; of a whole body."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_unknown(cls, told: Any) -> Any:
        """Count unknown fields first: reporting 50,000 faults would delay others.

        Fields that are ``null`` are dropped.
        """
        if not isinstance(told, dict):
            return told
        if None in told.values():
            told = {name: value for name, value in told.items() if value is not None}
        known = _names(cls)
        num_unknown = len(told) - sum(name in told for name in known)
        if num_unknown <= _MANY_UNKNOWN:
            return told
        named = [*islice((name for name in told if name not in known), _MOST_NAMED)]
        raise PydanticCustomError(
            MANY_UNKNOWN,
            "has many fields that are not known",
            {"named": named, "num_others": num_unknown - len(named)},
        )


_MAX_INT32: Final = 2**31 - 1
TokenIdField: TypeAlias = Annotated[int, Field(ge=0, le=_MAX_INT32)]
"""The id of a token."""
Budget: TypeAlias = Annotated[int, Field(ge=1, le=_MAX_INT32)]
"""A number of tokens to write."""
ThoughtsBudget: TypeAlias = Annotated[int, Field(ge=0, le=_MAX_INT32)]
"""A number of tokens to think before."""


def _no_number(value: object) -> object:
    """Refuse 0, 1 and the like, which equal the only value that is taken."""
    if type(value) in (int, float):
        raise PydanticKnownError("bool_type")
    return value


Off: TypeAlias = Annotated[Literal[False], BeforeValidator(_no_number)]
"""``false``, where nothing else is done here."""
On: TypeAlias = Annotated[Literal[True], BeforeValidator(_no_number)]
"""``true``, which is the only thing that may be said."""


class ModelFields(Given):
    """The model, and how JSON is written."""

    model: str

    # Ours
    json_options: dict[str, Any] | None = None
    """How JSON is written where a schema leaves a choice, by the names of ``JsonOptions``."""

    def schema_options(self, config: ServerConfig) -> JsonOptions:
        """Return the options of the request's schemas; raises RequestError for a wrong one."""
        told = self.json_options or {}
        # Here ``null`` says nothing, wherever it stands.
        options = json_options_of({name: one for name, one in told.items() if one is not None})
        return filled_options(options, config)


class SharedFields(ModelFields):
    """The fields that requests of all APIs share; a field without a note means what OpenAI says.

    Of vLLM's own fields, it has those that equal one of our options.
    """

    stop_field: ClassVar[str]
    """The name of the field that has the stop strings."""

    stream: bool = False
    seed: int | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Annotated[dict[str, float], BeforeValidator(_not_too_many)] = {}

    # vLLM's
    top_k: int | None = None
    """``None``, 0 and -1 keep all tokens."""
    min_p: float | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int | None = None
    """``None`` and 0 let all of them repeat."""
    stop_token_ids: Annotated[list[TokenIdField], Field(max_length=MAX_STOPS)] = []
    priority: int = 0
    cache_salt: str = ""
    include_stop_str_in_output: bool = False
    min_tokens: Annotated[int, Field(ge=0, le=_MAX_INT32)] = 0
    ignore_eos: bool = False
    """The same as ``min_tokens`` of the whole budget."""

    # Ours
    on_incomplete: Literal["close", "error"] | None = None
    """What becomes of an answer that is cut short; ``None``: what the server's settings say."""
    report: bool = False
    """Report with the answer how far it is held to its schema."""

    def sampling(self) -> Sampling:
        """Return how tokens are chosen."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k in (0, -1) else self.top_k,
            min_p=self.min_p or None,
            seed=self.seed,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            repetition_penalty=self.repetition_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram_size or None,
            logit_bias=tuple(_biases(self.logit_bias)),
        )

    def common(
        self,
        config: ServerConfig,
        max_tokens: int | None,
        default_max_tokens: int,
        budget_field: str = "max_tokens",
    ) -> dict[str, Any]:
        """Return the common options of a GenerationRequest with this budget, by name.

        ``budget_field`` is the field of the body that tells the budget; ``None``: it does not.
        """
        budget = default_max_tokens if max_tokens is None else max_tokens
        self._check_least(budget, budget_field)
        stop = self._stops()
        return {
            "sampling": self.sampling(),
            "stop": stop,
            "stop_tokens": tuple(map(TokenId, self.stop_token_ids)),
            # Without any there is nothing to include.
            "include_stop": self.include_stop_str_in_output and bool(stop or self.stop_token_ids),
            # As in vLLM: nothing stops the answer within its least length.
            "stop_after": self.min_tokens or None if stop or self.stop_token_ids else None,
            # A length that no end cuts short is a budget that the caller sets.
            "max_tokens": budget if self.ignore_eos else max_tokens,
            "default_max_tokens": default_max_tokens,
            "min_tokens": budget if self.ignore_eos else self.min_tokens or None,
            "priority": self.priority,
            "cache_salt": self.cache_salt,
            "on_incomplete": OnIncomplete(self.on_incomplete or config.on_incomplete),
            "report": self.report,
        }

    def came_from(
        self,
        *,
        prompt: str,
        constraint: str | None,
        reasoning: str | None = None,
        budget: str = "max_tokens",
    ) -> CameFrom:
        """Return where fields of a request came from, for errors, by those of this body."""
        return {
            "prompt": prompt,
            "constraint": constraint,
            "reasoning": reasoning,
            "max_tokens": budget,
            "stop": self.stop_field,
            "stop_tokens": "stop_token_ids",
            "include_stop": "include_stop_str_in_output",
        }

    def _stops(self) -> tuple[str, ...]:
        told: str | list[str] = getattr(self, self.stop_field)
        return (told,) if isinstance(told, str) else tuple(told)

    def _check_least(self, budget: int, budget_field: str) -> None:
        """Raise RequestError for a least length above the budget."""
        if self.min_tokens > budget:
            raise RequestError(
                f"min_tokens {self.min_tokens} is above {budget_field} ({budget})",
                field="min_tokens",
            )


class GenerationFields(SharedFields):
    """The fields that all requests of OpenAI's API share."""

    hints: ClassVar[Mapping[str, str]] = HINTS
    stop_field: ClassVar[str] = "stop"

    stop: Annotated[str | Stops, OneOfKinds()] = []
    n: Annotated[int, Field(ge=1)] = 1

    # Fields that change nothing here
    user: str | None = None
    """Ignored: the token identifies the caller."""
    metadata: dict[str, Any] | None = None
    """Not stored."""
    safety_identifier: str | None = None
    """Ignored, like ``user``."""
    prompt_cache_key: str | None = None
    """Ignored: prompts share what they begin with in any case."""
    store: Off | None = None
    """Nothing is stored."""
    service_tier: Literal["auto", "default"] | None = None
    """Ignored: there is one tier."""
    skip_special_tokens: On | None = None
    """Texts have no special tokens."""
    spaces_between_special_tokens: On | None = None
    """Means nothing, as there are none."""
    use_beam_search: Off | None = None

    @override
    def common(
        self,
        config: ServerConfig,
        max_tokens: int | None,
        default_max_tokens: int,
        budget_field: str = "max_tokens",
    ) -> dict[str, Any]:
        shared = super().common(config, max_tokens, default_max_tokens, budget_field)
        return {**shared, "n": self.n}


Body: TypeAlias = dict[str, Any]

_Model = TypeVar("_Model", bound=Given)


def given(kind: type[_Model], body: Body) -> _Model:
    """Validate a body as a request; raises RequestError for a field that is not honoured."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise refused(faults, body, kind.hints, _names(kind), kind.page) from error


@cache
def _names(kind: type[BaseModel]) -> frozenset[str]:
    """Return the names of the fields as written in a body."""
    return frozenset(field.alias or name for name, field in kind.model_fields.items())


def _biases(biases: Mapping[str, float]) -> list[tuple[int, float]]:
    found = []
    for token, bias in biases.items():
        if not token.isdecimal() or len(token) > 10:
            raise RequestError(
                f"logit_bias names {token[:40]!r}, which is no token's number", field="logit_bias"
            )
        found.append((int(token), bias))
    return found
