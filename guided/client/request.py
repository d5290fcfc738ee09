"""A request as the client's user writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from numbers import Integral, Real
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, Unpack, cast, overload

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeForm, TypeVar

from guided.client.answer import Answer, Candidate
from guided.client.prompt import Prompt, spoken_prompt
from guided.client.token_options import bias_pairs, stop_strings, stop_tokens
from guided.errors import AnswerValidationError, RequestError
from guided.response_types.adapter import adapter_of, schema_of_adapter
from guided.response_types.given_schema import document_texts, schema_text
from guided.spec import (
    Beams,
    Constraint,
    Forcing,
    GenerationRequest,
    JsonOptions,
    JsonSchema,
    OnIncomplete,
    Rank,
    Regex,
    Sampling,
    Structure,
    Usage,
)

__all__ = ["Options", "Request"]

T = TypeVar("T", default=Any, covariant=True)
Word = TypeVar("Word", bound=StrEnum)


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
    min_p: float | None
    """Keep the tokens at least p times as likely as the likeliest; ``None`` keeps all."""
    typical_p: float | None
    """Keep the least set that reaches p of the tokens whose surprise is nearest to the entropy;
    ``None`` keeps all."""
    epsilon_cutoff: float | None
    """Keep the tokens of at least this probability; ``None`` keeps all."""
    eta_cutoff: float | None
    """Keep the tokens of at least min(eta, sqrt(eta) * exp(-entropy)); ``None`` keeps all."""
    repetition_penalty: float
    """Logits of tokens in prompt or answer are divided by it where positive, else multiplied; 1."""
    presence_penalty: float
    """Taken off the logit of every token that the answer has; 0."""
    frequency_penalty: float
    """Taken off the logit of a token once for each time that the answer has it; 0."""
    no_repeat_ngram_size: int | None
    """No run of so many tokens comes twice where there is another way on; ``None`` allows it."""
    logit_bias: Mapping[int, float]
    """Token ids and what is added to their logits, from -100 to 100."""
    penalty_alpha: float | None
    """Contrastive search among the ``top_k`` likeliest tokens: how much it counts against a token
    to be like one before it, from 0 to 1; ``None`` does not search."""
    seed: int | None
    """The same seed gives the same tokens; ``None`` draws one."""
    stop: str | Iterable[str]
    """The answer ends where this string, or one of these, is complete, even unfinished."""
    stop_tokens: Iterable[int]
    """The answer ends with one of these tokens, even unfinished."""
    include_stop: bool
    """Leave what ended the answer in its text."""
    top_logprobs: int | None
    """Log-probabilities of each token, and of so many of the likeliest allowed ones beside it;
    ``None`` gives none at all."""
    priority: int
    """The smaller it is, the earlier the request is served where it has to wait; 0."""
    deadline: float | None
    """Seconds after which the answer is closed if it is not complete; ``None`` leaves that to the
    timeout of the call."""
    n: int
    """Answers to be given, ``Answer.candidates``; above 1 only with a temperature or beams; 1."""
    best_of: int | None
    """Answers to be drawn, of which the ``n`` best by ``rank`` are given; ``None`` gives all."""
    rank: Rank | Literal["likelihood", "reward"]
    """What tells which are best; the likelihood."""
    beams: Beams | None
    """Search for the likeliest answers instead of drawing them."""
    cache_salt: str
    """Beginnings of prompts are shared in the cache by requests of the same salt alone; empty."""
    on_incomplete: OnIncomplete | Literal["close", "error"]
    """What becomes of an answer that its budget or its deadline cuts short: it is closed, which is
    valid and may say little, or an ``IncompleteAnswerError``; closed."""
    forcing: Forcing
    """Which tokens are taken without asking the model; canonical."""
    grammar: Structure | re.Pattern[str] | None
    """What the answer must look like, instead of a schema; the value is then its text. A compiled
    pattern is one that the whole answer matches."""
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
    response_model: TypeForm[T] | TypeAdapter[T] | None = None
    """Type of the value: whatever pydantic's ``TypeAdapter`` takes, or such an adapter."""
    schema: str | Mapping[str, object] | None = None
    """A JSON Schema instead of a response model; the value is then the parsed JSON."""
    max_tokens: int = field(default=256, kw_only=True)
    temperature: float = field(default=0.0, kw_only=True)
    top_k: int | None = field(default=None, kw_only=True)
    top_p: float | None = field(default=None, kw_only=True)
    min_p: float | None = field(default=None, kw_only=True)
    typical_p: float | None = field(default=None, kw_only=True)
    epsilon_cutoff: float | None = field(default=None, kw_only=True)
    eta_cutoff: float | None = field(default=None, kw_only=True)
    repetition_penalty: float = field(default=1.0, kw_only=True)
    presence_penalty: float = field(default=0.0, kw_only=True)
    frequency_penalty: float = field(default=0.0, kw_only=True)
    no_repeat_ngram_size: int | None = field(default=None, kw_only=True)
    logit_bias: Mapping[int, float] = field(default_factory=dict, kw_only=True)
    penalty_alpha: float | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    stop: str | Iterable[str] = field(default=(), kw_only=True)
    stop_tokens: Iterable[int] = field(default=(), kw_only=True)
    include_stop: bool = field(default=False, kw_only=True)
    top_logprobs: int | None = field(default=None, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    deadline: float | None = field(default=None, kw_only=True)
    n: int = field(default=1, kw_only=True)
    best_of: int | None = field(default=None, kw_only=True)
    rank: Rank | Literal["likelihood", "reward"] = field(default=Rank.LIKELIHOOD, kw_only=True)
    beams: Beams | None = field(default=None, kw_only=True)
    cache_salt: str = field(default="", kw_only=True)
    on_incomplete: OnIncomplete | Literal["close", "error"] = field(
        default=OnIncomplete.CLOSE, kw_only=True
    )
    forcing: Forcing = field(default=Forcing.CANONICAL, kw_only=True)
    grammar: Structure | re.Pattern[str] | None = field(default=None, kw_only=True)
    show_schema: bool = field(default=False, kw_only=True)
    json_options: JsonOptions = field(default_factory=JsonOptions, kw_only=True)
    documents: Mapping[str, str | Mapping[str, object]] = field(default_factory=dict, kw_only=True)
    specification: GenerationRequest = field(init=False, repr=False, compare=False)
    """The request as the engine knows it."""
    _adapter: TypeAdapter[T] | None = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:
        # Checkers learn the type of the value from a parameter that is a form of a type alone.
        @overload
        def __init__(
            self,
            prompt: Prompt,
            response_model: TypeForm[T],
            schema: None = ...,
            **options: Unpack[Options],
        ) -> None: ...

        @overload
        def __init__(
            self,
            prompt: Prompt,
            response_model: TypeAdapter[T] | None = ...,
            schema: str | Mapping[str, object] | None = ...,
            **options: Unpack[Options],
        ) -> None: ...

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    def __post_init__(self) -> None:
        if self.response_model is not None and self.schema is not None:
            raise RequestError(
                "both response_model and schema are given",
                field="schema",
                hint="leave one out; the schema of a response model is its own",
            )
        if self.grammar is not None and (
            self.response_model is not None or self.schema is not None
        ):
            raise RequestError(
                "a grammar is given beside a response_model or a schema",
                field="grammar",
                hint="leave one out",
            )
        self._check_kinds()
        adapter = None if self.response_model is None else adapter_of(self.response_model)
        text = None if self.schema is None else schema_text(self.schema)
        if adapter is not None:
            text = schema_of_adapter(adapter, self.json_options.spelling)
        specification = GenerationRequest(
            prompt=spoken_prompt(self.prompt),
            constraint=self._constraint(text),
            max_tokens=self.max_tokens,
            sampling=self._sampling(),
            forcing=_word(Forcing, self.forcing, "forcing"),
            show_schema=self.show_schema,
            stop=stop_strings(self.stop),
            stop_tokens=stop_tokens(self.stop_tokens),
            include_stop=self.include_stop,
            top_logprobs=self.top_logprobs,
            priority=self.priority,
            deadline=self.deadline,
            n=self.n,
            best_of=self.best_of,
            rank=_word(Rank, self.rank, "rank"),
            beams=self.beams,
            cache_salt=self.cache_salt,
            on_incomplete=_word(OnIncomplete, self.on_incomplete, "on_incomplete"),
        )
        # The only way to set what is derived in a frozen value.
        object.__setattr__(self, "_adapter", adapter)
        object.__setattr__(self, "specification", specification)

    def _constraint(self, text: str | None) -> Constraint:
        documents = document_texts(self.documents)
        if text is not None:
            return JsonSchema(text, self.json_options, documents)
        for name, is_default in (
            ("json_options", self.json_options == JsonOptions()),
            ("documents", not documents),
        ):
            if not is_default:
                raise RequestError(f"{name} needs a response_model or a schema", field=name)
        return _pattern(self.grammar) if isinstance(self.grammar, re.Pattern) else self.grammar

    def _sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=self.seed,
            min_p=self.min_p,
            typical_p=self.typical_p,
            epsilon_cutoff=self.epsilon_cutoff,
            eta_cutoff=self.eta_cutoff,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
            logit_bias=bias_pairs(self.logit_bias),
            penalty_alpha=self.penalty_alpha,
        )

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
        """The answer whose value is read from its text, or ``AnswerValidationError``.

        Of several, the first whose value can be read.
        """
        candidates = tuple(
            self._read(one, plain.usage) for one in plain.candidates or (_only_candidate(plain),)
        )
        for candidate in candidates:
            if candidate.error is None:
                return Answer(
                    value=cast("T", candidate.value),
                    text=candidate.text,
                    finish_reason=candidate.finish_reason,
                    usage=plain.usage,
                    seconds=plain.seconds,
                    logprobs=candidate.logprobs,
                    timing=plain.timing,
                    candidates=candidates,
                )
        refused = candidates[0].error
        assert refused is not None, "a candidate without a value and without an error"
        raise refused

    def _read(self, plain: Candidate[str], usage: Usage) -> Candidate[T]:
        try:
            return replace(cast("Candidate[Any]", plain), value=self._value(plain.text))
        except (
            Exception
        ) as error:  # a validator may raise anything, and others may have taken theirs
            refusal = AnswerValidationError(
                f"the answer {plain.text!r} is refused by its type: {_reasons(error)}",
                text=plain.text,
                finish_reason=plain.finish_reason,
                usage=usage,
            )
            refusal.__cause__ = error
            return replace(cast("Candidate[Any]", plain), value=None, error=refusal)

    def _value(self, text: str) -> T:
        if self._adapter is not None:
            return self._adapter.validate_json(text)
        return cast("T", text if self.schema is None else json.loads(text))


_KINDS: Mapping[str, tuple[type | UnionType, str, bool]] = {
    "max_tokens": (Integral, "an integer", False),
    "temperature": (Real, "a number", False),
    "top_k": (Integral, "an integer", True),
    "top_p": (Real, "a number", True),
    "min_p": (Real, "a number", True),
    "typical_p": (Real, "a number", True),
    "epsilon_cutoff": (Real, "a number", True),
    "eta_cutoff": (Real, "a number", True),
    "repetition_penalty": (Real, "a number", False),
    "presence_penalty": (Real, "a number", False),
    "frequency_penalty": (Real, "a number", False),
    "no_repeat_ngram_size": (Integral, "an integer", True),
    "logit_bias": (Mapping, "a mapping of token ids to numbers", False),
    "penalty_alpha": (Real, "a number", True),
    "seed": (Integral, "an integer", True),
    "stop": (Iterable, "a string, or several", False),
    "stop_tokens": (Iterable, "a collection of token ids", False),
    "include_stop": (bool, "True or False", False),
    "top_logprobs": (Integral, "an integer", True),
    "priority": (Integral, "an integer", False),
    "deadline": (Real, "a number", True),
    "n": (Integral, "an integer", False),
    "best_of": (Integral, "an integer", True),
    "beams": (Beams, "a guided.Beams", True),
    "cache_salt": (str, "a string", False),
    "show_schema": (bool, "True or False", False),
    "json_options": (JsonOptions, "a guided.JsonOptions", False),
    "grammar": (
        Structure | re.Pattern,
        "a constraint such as guided.Lark or guided.Template",
        True,
    ),
    "documents": (Mapping, "a mapping of URIs to schemas", False),
}
"""Of each option the type, its name in messages, and whether ``None`` is a value."""

_SAMPLING = frozenset(option.name for option in fields(Sampling))


def _pattern(compiled: re.Pattern[str]) -> Regex:
    """The constraint of a compiled pattern, its flags written into it."""
    if not isinstance(compiled.pattern, str):
        raise RequestError(
            f"grammar {compiled!r} is a pattern of bytes", field="grammar", hint="compile a string"
        )
    letters = "".join(letter for letter, flag in _FLAGS.items() if compiled.flags & flag)
    return Regex(f"(?{letters}){compiled.pattern}" if letters else compiled.pattern)


_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def _only_candidate(plain: Answer[str]) -> Candidate[str]:
    """The one answer of a request that did not ask for several."""
    return Candidate(
        index=0,
        value=plain.text,
        text=plain.text,
        finish_reason=plain.finish_reason,
        num_tokens=plain.usage.output_tokens,
        score=None,
        logprobs=plain.logprobs,
    )


def _reasons(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False)
    )


def _word(kind: type[Word], name: str, field: str) -> Word:
    try:
        return kind(name)
    except ValueError as error:
        known = ", ".join(repr(word.value) for word in kind)
        raise RequestError(f"{field} {name!r} is none of {known}", field=field) from error
