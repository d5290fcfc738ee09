"""What a caller asks for and what comes back: frozen values, validated when they are made."""

from guided.spec.constraints import Choice, Ebnf, JsonSchema, Lark, Regex, RegexDialect
from guided.spec.json_options import FREE_WHITESPACE, FormatMode, JsonOptions, KeyOrder, Spelling
from guided.spec.option import named_pairs, word_of
from guided.spec.request import (
    HIGHEST_PRIORITY,
    LONGEST_DEADLINE,
    MOST_SALT_BYTES,
    MOST_STOPS,
    MOST_TOP_LOGPROBS,
    Beams,
    Forcing,
    GenerationRequest,
    Message,
    OnIncomplete,
    Rank,
)
from guided.spec.result import (
    Alternative,
    CandidateResult,
    FinishReason,
    GenerationResult,
    Timing,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided.spec.sampling import Sampling
from guided.spec.structure import (
    MAX_NESTING,
    MAX_PARTS,
    Constraint,
    Structure,
    check_nesting,
    digest_of,
)

__all__ = [
    "FREE_WHITESPACE",
    "HIGHEST_PRIORITY",
    "LONGEST_DEADLINE",
    "MAX_NESTING",
    "MAX_PARTS",
    "MOST_SALT_BYTES",
    "MOST_STOPS",
    "MOST_TOP_LOGPROBS",
    "Alternative",
    "Beams",
    "CandidateResult",
    "Choice",
    "Constraint",
    "Ebnf",
    "FinishReason",
    "Forcing",
    "FormatMode",
    "GenerationRequest",
    "GenerationResult",
    "JsonOptions",
    "JsonSchema",
    "KeyOrder",
    "Lark",
    "Message",
    "OnIncomplete",
    "Rank",
    "Regex",
    "RegexDialect",
    "Sampling",
    "Spelling",
    "Structure",
    "Timing",
    "TokenId",
    "TokenLogprobs",
    "Usage",
    "check_nesting",
    "digest_of",
    "named_pairs",
    "word_of",
]
