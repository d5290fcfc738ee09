"""Fields of requests: only those that are honoured, and few others that ask for nothing here.

A field that is not listed is an error that names it, so nothing that a caller asks for is passed
over in silence. ``null`` is the same as leaving a field out.
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

from guided.errors import RequestError
from guided.spec import MOST_STOPS, Sampling, TokenId
from guided_service.http.faults import MANY_UNKNOWN, refused
from guided_service.http.unions import OneOfKinds

__all__ = ["Body", "GenerationFields", "Given", "Listed", "given"]

_MANY_BIASES: Final = 1024
_MANY_UNKNOWN: Final = 8
"""Fields of one object that are not ours, of which pydantic may write down each."""
_MOST_NAMED: Final = 3
"""Of more than that are named."""
_Item = TypeVar("_Item")

Listed: TypeAlias = Annotated[list[_Item], Field(fail_fast=True)]
"""A list of which one faulty item is told: to write down 50,000 would take the time of others."""

Stops: TypeAlias = Annotated[list[str], Field(max_length=MOST_STOPS)]


def _not_too_many(biases: object) -> object:
    """Counted before they are looked at; a bound of pydantic would look at all of them first."""
    if isinstance(biases, dict) and len(biases) > _MANY_BIASES:
        told = {
            "field_type": "Dictionary",
            "max_length": _MANY_BIASES,
            "actual_length": len(biases),
        }
        raise PydanticKnownError("too_long", told)
    return biases


class Given(BaseModel):
    """A part of a request, of which every field is honoured."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_unknown(cls, told: Any) -> Any:
        """Fields are counted first: to write down 50,000 faults would take the time of others.

        Those of ``null`` are left out.
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


class GenerationFields(Given):
    """What requests for text have in common; fields without a note mean what OpenAI says.

    Of vLLM's own fields those are here that say the same of our options.
    """

    hints: ClassVar[Mapping[str, str]] = {}
    """What to do instead, by fields that are refused."""

    model: str
    stream: bool = False
    seed: int | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Annotated[dict[str, float], BeforeValidator(_not_too_many)] = {}
    stop: Annotated[str | Stops, OneOfKinds()] = []
    n: Annotated[int, Field(ge=1)] = 1

    # vLLM's
    top_k: int | None = None
    """None, 0 and -1 keep all."""
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop_token_ids: Annotated[list[int], Field(max_length=MOST_STOPS)] = []
    priority: int = 0
    cache_salt: str = ""

    # What asks for nothing here
    user: str | None = None
    """Who asks is told by the token; this is not looked at."""
    metadata: dict[str, Any] | None = None
    """Kept nowhere."""
    safety_identifier: str | None = None
    """Not looked at, as ``user``."""
    prompt_cache_key: str | None = None
    """Prompts are shared by what they begin with, whatever is said of them."""
    store: Literal[False] | None = None
    """Nothing is stored."""
    service_tier: Literal["auto", "default"] | None = None
    """There is one."""

    def sampling(self) -> Sampling:
        """How tokens are chosen."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k in (0, -1) else self.top_k,
            min_p=self.min_p or None,
            seed=self.seed,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=tuple(_biases(self.logit_bias)),
        )

    def common(self) -> dict[str, Any]:
        """Options of a GenerationRequest, by name."""
        return {
            "sampling": self.sampling(),
            "stop": (self.stop,) if isinstance(self.stop, str) else tuple(self.stop),
            "stop_tokens": tuple(map(TokenId, self.stop_token_ids)),
            "n": self.n,
            "priority": self.priority,
            "cache_salt": self.cache_salt,
        }


Body: TypeAlias = dict[str, Any]

_Model = TypeVar("_Model", bound=GenerationFields)


def given(kind: type[_Model], body: Body) -> _Model:
    """The request that a body says; raises RequestError for a field that is not honoured."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise refused(error.errors(include_url=False), body, kind.hints) from error


@cache
def _names(kind: type[BaseModel]) -> frozenset[str]:
    """The names of the fields as a body has them."""
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
