"""Requests and results: frozen values, validated when they are made."""

from guided.spec.constraints import Choice, Ebnf, JsonSchema, Lark, Regex, RegexDialect
from guided.spec.draft_options import NO_DRAFTER
from guided.spec.findings import TextFit, TextReport
from guided.spec.json_options import (
    FREE_WHITESPACE,
    FormatMode,
    JsonOptions,
    KeyOrder,
    Spelling,
    UnknownKeywords,
)
from guided.spec.message import Message
from guided.spec.option import named_pairs, word_of
from guided.spec.prompt import EnginePrompt, TokenPrompt
from guided.spec.prompt_tokens import PromptTokens
from guided.spec.reasoning import Reasoning
from guided.spec.report import (
    CheckedConstraint,
    CompileCost,
    Enforcement,
    LikelyLimit,
    SchemaReport,
    UnenforcedValidator,
    Verdict,
)
from guided.spec.request import (
    HIGHEST_PRIORITY,
    MAX_DEADLINE,
    MAX_MESSAGES,
    MAX_STOPS,
    MAX_TOP_LOGPROBS,
    Beams,
    Forcing,
    GenerationRequest,
    OnIncomplete,
    Rank,
)
from guided.spec.result import (
    Alternative,
    CandidateResult,
    DrafterUsage,
    FinishReason,
    GenerationResult,
    Timing,
    TokenId,
    TokenLogprobs,
    Usage,
    Verification,
)
from guided.spec.sampling import Sampling
from guided.spec.stored import MAX_SALT_BYTES, GrammarInfo, Stored, check_salt
from guided.spec.structure import (
    MAX_NESTING,
    MAX_PARTS,
    Constraint,
    Structure,
    check_nesting,
    digest_of,
)
from guided.spec.tools import Tool, ToolCall, ToolUse

__all__ = [
    "FREE_WHITESPACE",
    "HIGHEST_PRIORITY",
    "MAX_DEADLINE",
    "MAX_MESSAGES",
    "MAX_NESTING",
    "MAX_PARTS",
    "MAX_SALT_BYTES",
    "MAX_STOPS",
    "MAX_TOP_LOGPROBS",
    "NO_DRAFTER",
    "Alternative",
    "Beams",
    "CandidateResult",
    "CheckedConstraint",
    "Choice",
    "CompileCost",
    "Constraint",
    "DrafterUsage",
    "Ebnf",
    "Enforcement",
    "EnginePrompt",
    "FinishReason",
    "Forcing",
    "FormatMode",
    "GenerationRequest",
    "GenerationResult",
    "GrammarInfo",
    "JsonOptions",
    "JsonSchema",
    "KeyOrder",
    "Lark",
    "LikelyLimit",
    "Message",
    "OnIncomplete",
    "PromptTokens",
    "Rank",
    "Reasoning",
    "Regex",
    "RegexDialect",
    "Sampling",
    "SchemaReport",
    "Spelling",
    "Stored",
    "Structure",
    "TextFit",
    "TextReport",
    "Timing",
    "TokenId",
    "TokenLogprobs",
    "TokenPrompt",
    "Tool",
    "ToolCall",
    "ToolUse",
    "UnenforcedValidator",
    "UnknownKeywords",
    "Usage",
    "Verdict",
    "Verification",
    "check_nesting",
    "check_salt",
    "digest_of",
    "named_pairs",
    "word_of",
]
