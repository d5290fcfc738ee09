"""Structured generation: answers that fit a constraint exactly, and fewer model calls to make them.

>>> import guided
>>> with guided.Client("localhost:50051") as client:
...     invoice = client.generate("Make up an invoice.", Invoice).value

Importing the package loads neither torch nor grpc; the client is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from guided.errors import (
    AnswerValidationError,
    ConstraintError,
    DeadlineExceededError,
    GuidedError,
    IncompleteAnswerError,
    InternalServiceError,
    InvalidConstraintError,
    LimitExceededError,
    MissingExtraError,
    ModelError,
    OutOfMemoryError,
    RequestCancelledError,
    RequestError,
    ServiceError,
    ServiceUnavailableError,
    TokenRejectedError,
    UnauthenticatedError,
    UnknownConstraintError,
    UnknownModelError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.extras import needing
from guided.spec import (
    Alternative,
    Beams,
    CandidateResult,
    Choice,
    CompileCost,
    DrafterUsage,
    Ebnf,
    Enforcement,
    FinishReason,
    Forcing,
    FormatMode,
    GenerationRequest,
    GenerationResult,
    GrammarInfo,
    JsonOptions,
    JsonSchema,
    KeyOrder,
    Lark,
    LikelyLimit,
    Message,
    OnIncomplete,
    PromptTokens,
    Rank,
    Reasoning,
    Regex,
    RegexDialect,
    Sampling,
    SchemaReport,
    Spelling,
    Stored,
    TextFit,
    TextReport,
    Timing,
    TokenLogprobs,
    Tool,
    ToolCall,
    UnenforcedValidator,
    UnknownKeywords,
    Usage,
    Verdict,
    Verification,
)
from guided.spec.composition import AnyOf, JsonObject, Repeat, Sequence, Template, Text
from guided.spec.library import grammar_names
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import Calls, FreeText, Tag, Tagged, Until
from guided.stats import EngineStats, ModelInfo

if TYPE_CHECKING:
    from guided.client import (
        Answer,
        AnswerEnded,
        ArgumentsGrown,
        AsyncClient,
        AsyncStream,
        CallBegun,
        CallEnded,
        Candidate,
        Client,
        Completed,
        RawPrompt,
        Request,
        Score,
        Stream,
        TextGrown,
        ThoughtsGrown,
        Tls,
        TokenPrompt,
        ValueEvent,
        wait_until_serving,
    )
    from guided.constraint.check import check

__all__ = [
    "Alternative",
    "Answer",
    "AnswerEnded",
    "AnswerValidationError",
    "AnyOf",
    "ArgumentsGrown",
    "AsyncClient",
    "AsyncStream",
    "Beams",
    "CallBegun",
    "CallEnded",
    "Calls",
    "Candidate",
    "CandidateResult",
    "Choice",
    "Client",
    "CompileCost",
    "Completed",
    "ConstraintError",
    "DeadlineExceededError",
    "DrafterUsage",
    "Ebnf",
    "Enforcement",
    "EngineStats",
    "FinishReason",
    "Forcing",
    "FormatMode",
    "FreeText",
    "GenerationRequest",
    "GenerationResult",
    "GrammarInfo",
    "GuidedError",
    "IncompleteAnswerError",
    "InternalServiceError",
    "InvalidConstraintError",
    "JsonObject",
    "JsonOptions",
    "JsonSchema",
    "KeyOrder",
    "Lark",
    "LikelyLimit",
    "LimitExceededError",
    "Message",
    "MissingExtraError",
    "ModelError",
    "ModelInfo",
    "OnIncomplete",
    "OutOfMemoryError",
    "PromptTokens",
    "Rank",
    "RawPrompt",
    "Reasoning",
    "Regex",
    "RegexDialect",
    "Repeat",
    "Request",
    "RequestCancelledError",
    "RequestError",
    "Sampling",
    "SchemaReport",
    "Score",
    "Sequence",
    "ServiceError",
    "ServiceUnavailableError",
    "SpecialToken",
    "Spelling",
    "Stored",
    "Stream",
    "Tag",
    "Tagged",
    "Template",
    "Text",
    "TextFit",
    "TextGrown",
    "TextReport",
    "ThoughtsGrown",
    "Timing",
    "Tls",
    "TokenLogprobs",
    "TokenPrompt",
    "TokenRejectedError",
    "Tool",
    "ToolCall",
    "UnauthenticatedError",
    "UnenforcedValidator",
    "UnknownConstraintError",
    "UnknownKeywords",
    "UnknownModelError",
    "UnsatisfiableError",
    "UnsupportedFeatureError",
    "Until",
    "Usage",
    "ValueEvent",
    "Verdict",
    "Verification",
    "check",
    "grammar_names",
    "wait_until_serving",
]


def __getattr__(name: str) -> object:
    # All that is not here yet belongs to the client, but for one function.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "guided.constraint.check" if name == "check" else "guided.client"
    with needing(f"guided.{name}"):
        return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
