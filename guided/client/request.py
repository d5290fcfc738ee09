"""A request as the client's user writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast

from pydantic import TypeAdapter
from typing_extensions import TypeForm, TypeVar

from guided.client.answer import Answer, Candidate
from guided.client.options import (
    ITERABLES,
    Options,
    Schema,
    engine_options,
    naming_misspelt_options,
    reasoning_of,
    with_options,
)
from guided.client.partial import Partials
from guided.client.prompt import Prompt, RawPrompt, spoken_prompt
from guided.client.reasons import reasons_of
from guided.client.tools import given_tools, tool_use
from guided.client.typed_tools import TypedTool, typed_calls
from guided.errors import AnswerValidationError, InternalServiceError, RequestError
from guided.response_types.schema_text import (
    adapter_of,
    document_texts,
    schema_of_adapter,
    schema_text,
)
from guided.response_types.validators import unenforced_validators
from guided.spec import (
    Constraint,
    GenerationRequest,
    JsonOptions,
    JsonSchema,
    Regex,
    SchemaReport,
    Stored,
    Structure,
    TokenPrompt,
    Usage,
)
from guided.spec.constraints import with_json_options
from guided.spec.written_grammar import written_grammar

__all__ = ["NO_MODEL", "Request"]

T = TypeVar("T", default=Any, covariant=True)

NO_MODEL: Final[Any] = None
"""The response model of a request that has none."""


@naming_misspelt_options
@dataclass(frozen=True)
@with_options
class Request(Generic[T]):
    """A request for one answer; ``T`` is the type of the answer's value.

    >>> Request("Invent a person.", Person, max_tokens=64)

    The constraint is the response model's schema, or ``schema``, or none. Everything is checked
    when the request is made: a wrong value raises ``RequestError`` before anything is sent. Every
    option is an attribute.
    """

    prompt: Prompt
    response_model: TypeForm[T] | TypeAdapter[T] | None = None
    """Type of the value: whatever pydantic's ``TypeAdapter`` takes, or an adapter itself. Or what
    ``grammar`` takes, or a grammar's text in Lark's format; then the value is text."""
    schema: Schema | None = None
    """A JSON Schema instead of a response model; the value is then the parsed JSON."""
    specification: GenerationRequest = field(init=False, repr=False, compare=False)
    """The request as the engine knows it."""
    _adapter: TypeAdapter[T] | None = field(init=False, repr=False, compare=False)
    _tools: Mapping[str, TypedTool] = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:
        # One signature, so that an error names a mistyped option. Checkers infer the type of the
        # value only from a parameter of type TypeForm, not from adapters and grammars in its place.
        def __init__(
            self,
            prompt: Prompt,
            response_model: TypeForm[T] = ...,
            schema: Schema | None = ...,
            **options: Unpack[Options],
        ) -> None: ...

        # Options are fields that checkers do not see.
        def __getattr__(self, option: str) -> Any: ...

    def __post_init__(self) -> None:
        self._keep_iterators()
        if self.response_model is not None and self.schema is not None:
            raise RequestError(
                "both response_model and schema are given",
                field="schema",
                hint="leave one out; the schema of a response model is its own",
            )
        written = written_grammar(self.response_model)
        # A stored constraint may be the response model's schema; then the model reads the answer.
        is_stored = isinstance(self.grammar, Stored) and self.schema is None and written is None
        if (
            self.grammar is not None
            and not is_stored
            and (self.response_model is not None or self.schema is not None)
        ):
            raise RequestError(
                "a grammar is given beside a response_model or a schema",
                field="grammar",
                hint="leave one out",
            )
        options = engine_options(self)
        self._check_retries()
        adapter = None
        if self.response_model is not None and written is None:
            adapter = adapter_of(self.response_model)
        text = None if self.schema is None else schema_text(self.schema)
        if adapter is not None and self.grammar is None:
            text = schema_of_adapter(adapter, self.json_options.spelling)
        constraint = self._constraint(text, written or self.grammar)
        typed = given_tools(self.tools)
        self._check_context(adapter, typed)
        tools = tool_use(
            typed, self.tool_choice, parallel=self.parallel_tool_calls, beside=constraint
        )
        specification = GenerationRequest(
            prompt=spoken_prompt(self.prompt),
            constraint=constraint,
            tools=tools,
            reasoning=reasoning_of(self.reasoning),
            **options,
        )
        # The only way to set attributes of a frozen dataclass.
        object.__setattr__(self, "_adapter", adapter)
        object.__setattr__(self, "_tools", {each.tool.name: each for each in typed})
        object.__setattr__(self, "specification", specification)

    def _keep_iterators(self) -> None:
        """Read iterators once: ``replace`` makes other requests of the same fields."""
        for name in ("prompt", *ITERABLES):
            value = getattr(self, name)
            if isinstance(value, Iterator):
                object.__setattr__(self, name, tuple(value))

    def _check_retries(self) -> None:
        if self.max_retries < 0:
            raise RequestError(f"max_retries {self.max_retries!r} is below 0", field="max_retries")
        if self.max_retries and isinstance(self.prompt, RawPrompt | TokenPrompt):
            raise RequestError(
                "max_retries needs a conversation, in which the model is told what was wrong",
                field="max_retries",
                hint="pass the prompt as a string or as messages",
            )

    def _check_context(
        self, adapter: TypeAdapter[Any] | None, tools: tuple[TypedTool, ...]
    ) -> None:
        if self.context is not None and adapter is None and not any(one.adapter for one in tools):
            raise RequestError(
                "context needs a response_model, or a tool of a type: no other validators take it",
                field="context",
                hint="leave it out",
            )

    def without_retries(self) -> Self:
        """Return the request for a stream; raises ``RequestError`` if it has ``max_retries``."""
        if self.max_retries:
            raise RequestError(
                "a stream has no max_retries: what was streamed is not taken back",
                field="max_retries",
                hint="leave it out, or use generate",
            )
        return self

    def _constraint(
        self, text: str | None, grammar: Structure | re.Pattern[str] | None
    ) -> Constraint:
        documents = document_texts(self.documents)
        if text is not None:
            return JsonSchema(text, self.json_options, documents)
        plain = Regex(grammar) if isinstance(grammar, re.Pattern) else grammar
        optioned = None if plain is None else with_json_options(plain, self.json_options)
        for name, is_taken in (
            ("json_options", optioned is not None or self.json_options == JsonOptions()),
            ("documents", not documents),
        ):
            if not is_taken:
                raise RequestError(f"{name} needs a response_model or a schema", field=name)
        return optioned

    def read(self, plain: Answer[str]) -> Answer[T]:
        """Return the answer with its value read from its text; raises ``AnswerValidationError``.

        Of several answers, returns the first whose value can be read.
        """
        candidates = self.candidates(plain)
        for candidate in candidates:
            if candidate.error is None:
                return replace(
                    cast("Answer[Any]", plain),
                    value=candidate.value,
                    text=candidate.text,
                    finish_reason=candidate.finish_reason,
                    logprobs=candidate.logprobs,
                    tool_calls=candidate.tool_calls,
                    content=candidate.content,
                    reasoning=candidate.reasoning,
                    stop_string=candidate.stop_string,
                    candidates=candidates,
                    begun=self.specification.begun,
                    report=None if plain.report is None else self.with_validators(plain.report),
                )
        refused = candidates[0].error
        assert refused is not None, "a candidate without a value and without an error"
        refused.request_id = plain.request_id or None
        raise refused

    def candidates(self, plain: Answer[str]) -> tuple[Candidate[T], ...]:
        """Return all answers, each with its value, or with the error with which its type refuses
        its text.
        """
        told = plain.candidates or (_only_candidate(plain),)
        return tuple([self.candidate(one, plain.usage) for one in told])

    def partials(self) -> Partials[T]:
        """Return a reader of the growing answer; raises ``RequestError`` if it is not JSON."""
        if self._adapter is None and self.schema is None:
            raise RequestError(
                "partial answers need a response_model or a schema",
                field="response_model",
                hint="read the text of the stream instead",
            )
        if self.specification.tools is not None:
            raise RequestError(
                "an answer that may call tools cannot be read in parts",
                field="tools",
                hint="read the events() of the stream instead",
            )
        if self.specification.has_candidates:
            raise RequestError(
                "several answers cannot be read in parts: they grow side by side",
                field="n",
                hint="read the events() of the stream instead, or ask for one answer",
            )
        return Partials(self._adapter, self.context)

    def with_validators(self, report: SchemaReport) -> SchemaReport:
        """Return the server's report with the response model's validators, which it cannot know."""
        if self._adapter is None:
            return report
        return replace(report, unenforced_validators=unenforced_validators(self._adapter))

    def candidate(self, plain: Candidate[str], usage: Usage) -> Candidate[T]:
        """Return one answer, likewise; ``usage`` is the cost that the error tells."""
        candidate = cast("Candidate[Any]", plain)
        try:
            if plain.tool_calls:
                calls = typed_calls(plain.tool_calls, self._tools, self.context)
                return replace(candidate, value=None, tool_calls=calls)
            return replace(candidate, value=self._value(plain.text))
        except InternalServiceError:
            raise
        except (
            Exception
        ) as error:  # a validator may raise anything, and other candidates may be accepted
            reason, whole = reasons_of(error, "the answer"), self.specification.begun + plain.text
            refusal = AnswerValidationError(
                f"the answer {whole!r} is refused by its type: {reason}",
                text=whole,
                finish_reason=plain.finish_reason,
                usage=usage,
                reason=reason,
            )
            refusal.__cause__ = error
            return replace(candidate, value=None, error=refusal)

    def _value(self, text: str) -> T:
        whole = self.specification.begun + text
        if self._adapter is not None:
            return self._adapter.validate_json(whole, context=self.context)
        return cast("T", text if self.schema is None else json.loads(whole))


def _only_candidate(plain: Answer[str]) -> Candidate[str]:
    """Return the single answer of a request as a candidate."""
    return Candidate(
        index=0,
        value=plain.text,
        text=plain.text,
        finish_reason=plain.finish_reason,
        num_tokens=plain.usage.output_tokens,
        score=None,
        logprobs=plain.logprobs,
        tool_calls=plain.tool_calls,
        content=plain.content,
        reasoning=plain.reasoning,
        usage=plain.usage,
        stop_string=plain.stop_string,
    )
