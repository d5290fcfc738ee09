"""What a caller asks for and what comes back: frozen values, validated when they are made."""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NewType, TypeAlias, TypeVar, cast

from guided.candidates import Beams, check_counts, check_sampling
from guided.errors import InvalidConstraintError, LimitExceededError, RequestError
from guided.library import read_grammar
from guided.sampling import Sampling

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
    "Rank",
    "Reading",
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

FREE_WHITESPACE = 32
"""What ``whitespace="free"`` stands for: a line break and an indentation of up to 31."""

MAX_NESTING = 30
"""How deep constraints may stand inside of one another; protobuf reads messages 100 deep."""

MAX_PARTS = 20_000
"""Constraints that one is made of, on all levels together."""

LONGEST_DEADLINE = 86_400.0
"""Seconds; a day."""

MOST_SALT_BYTES = 256
MOST_STOPS = 64
"""Stop strings, and stop tokens, of one request."""

HIGHEST_PRIORITY = 100
"""Priorities reach as far below zero, too."""

MOST_TOP_LOGPROBS = 20
"""Likeliest tokens that may be asked for at each place of an answer."""

Word = TypeVar("Word", bound=StrEnum)

TokenId = NewType("TokenId", int)
"""Number of a token in a vocabulary, which is also its column in the logits."""


class KeyOrder(StrEnum):
    """In which order the members of an object are written."""

    SCHEMA = "schema"
    """Named members in the order in which the schema first names them, then the others."""
    ANY = "any"


class FormatMode(StrEnum):
    """What ``format`` means."""

    ASSERT = "assert"
    """A string has to be of the format."""
    ANNOTATE = "annotate"
    """A note to people."""


class Spelling(StrEnum):
    """How scalars are spelled."""

    CANONICAL = "canonical"
    """Numbers without exponent and without needless zeros, strings without needless escapes."""
    ANY = "any"
    """Whatever JSON allows; names, and strings under a pattern, format or list, stay canonical."""


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How JSON is written where its schema leaves that open.

    Enumerated values may be given as plain words, e.g. ``JsonOptions(key_order="any")``. The bounds
    keep a model from writing digits, letters or spaces without end; ``None`` lifts them.
    """

    whitespace: int | None = 0
    """White space characters at most between two tokens of JSON.

    ``"compact"`` is 0, ``"free"`` is ``FREE_WHITESPACE``.
    """
    key_order: KeyOrder = KeyOrder.SCHEMA
    format: FormatMode = FormatMode.ASSERT
    spelling: Spelling = Spelling.CANONICAL
    max_string_length: int | None = 10_000
    """Code points of a string whose schema sets no bound."""
    max_number_digits: int | None = 20
    """Digits on either side of the point, of a number whose schema sets no bound there."""

    if TYPE_CHECKING:
        # What may be given is wider than what is kept.
        def __init__(
            self,
            whitespace: int | Literal["compact", "free"] | None = 0,
            key_order: KeyOrder | Literal["schema", "any"] = KeyOrder.SCHEMA,
            format: FormatMode | Literal["assert", "annotate"] = FormatMode.ASSERT,
            spelling: Spelling | Literal["canonical", "any"] = Spelling.CANONICAL,
            max_string_length: int | None = 10_000,
            max_number_digits: int | None = 20,
        ) -> None: ...

    def __post_init__(self) -> None:
        # The only way to set what is derived in a frozen value.
        object.__setattr__(self, "whitespace", _whitespace(self.whitespace))
        object.__setattr__(self, "key_order", word_of(KeyOrder, self.key_order, "key_order"))
        object.__setattr__(self, "format", word_of(FormatMode, self.format, "format"))
        object.__setattr__(self, "spelling", word_of(Spelling, self.spelling, "spelling"))
        _check_bound(self.whitespace, 0, "whitespace", '"compact", "free", an integer or None')
        _check_bound(self.max_string_length, 1, "max_string_length", "an integer or None")
        _check_bound(self.max_number_digits, 1, "max_number_digits", "an integer or None")


def _whitespace(value: object) -> object:
    if isinstance(value, str):
        return {"compact": 0, "free": FREE_WHITESPACE}.get(value, value)
    return value


def word_of(kind: type[Word], value: object, name: str, field: str = "json_options") -> Word:
    """The member of an enumeration that a value is or names; raises RequestError for others."""
    try:
        return kind(cast("str", value))
    except ValueError as error:
        known = ", ".join(repr(word.value) for word in kind)
        raise RequestError(
            f"{name} {value!r} is none of {known}", field=f"{field}.{name}"
        ) from error


def _check_bound(value: object, least: int, name: str, described: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(
            f"{name} {value!r} is not an integer",
            field=f"json_options.{name}",
            hint=f"pass {described}",
        )
    if value < least:
        raise RequestError(f"{name} {value!r} is below {least}", field=f"json_options.{name}")


class Structure(ABC):
    """What an answer must look like: a schema, a grammar, a pattern or a list of texts."""

    __slots__ = ()

    @abstractmethod
    def digest(self) -> str:
        """Key under which the compiled form is cached."""

    def inner(self) -> tuple[Structure, ...]:
        """The constraints that this one is made of."""
        return ()


@dataclass(frozen=True, slots=True)
class JsonSchema(Structure):
    """A JSON Schema as text, so that the order of its properties is the caller's."""

    text: str
    options: JsonOptions = field(default_factory=JsonOptions)
    documents: tuple[tuple[str, str], ...] = ()
    """Other schemas that it may refer to: the URI and the text of each, ordered by URI.

    Nothing is ever fetched.
    """

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.documents))
        for (uri, _), (following, _) in itertools.pairwise(ordered):
            if uri == following:
                raise InvalidConstraintError(f"two documents are given for the URI {uri!r}")
        # The order in which they are given says nothing, and must not part equal constraints.
        object.__setattr__(self, "documents", ordered)

    def digest(self) -> str:
        return digest_of("json_schema", (self.text, self.options, self.documents))


class Reading(StrEnum):
    """Which texts a grammar in Lark's format has."""

    CONTEXT_FREE = "context_free"
    """All that can be cut into terminals so that some derivation reads them."""
    CONTEXTUAL = "contextual"
    """Those that Lark's LALR parser takes, with its contextual scanner."""


@dataclass(frozen=True, slots=True)
class Lark(Structure):
    """A context-free grammar in Lark's own format.

    The language is the context-free one over the languages of its terminals, and priorities say
    nothing about it, unless ``reading`` says otherwise.
    """

    text: str
    start: str = "start"
    """The rule that the whole answer is a text of."""
    imports: tuple[tuple[str, str], ...] = ()
    """Grammars that it may import besides Lark's own: dotted name and text of each.

    Nothing is read from any disk.
    """
    holes: tuple[tuple[str, Structure], ...] = ()
    """What fills terminals that it declares: name and constraint of each."""
    reading: Reading = Reading.CONTEXT_FREE

    if TYPE_CHECKING:
        # What may be given is wider than what is kept.
        def __init__(
            self,
            text: str,
            start: str = "start",
            imports: tuple[tuple[str, str], ...] = (),
            holes: Mapping[str, Structure] | Iterable[tuple[str, Structure]] = (),
            reading: Reading | Literal["context_free", "contextual"] = Reading.CONTEXT_FREE,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "reading", word_of(Reading, self.reading, "reading", "constraint"))
        holes = tuple(sorted(named_pairs(self.holes, "holes"), key=lambda hole: hole[0]))
        for name, filling in holes:
            if not isinstance(filling, Structure):
                raise InvalidConstraintError(
                    f"what fills {name!r} is {type(filling).__name__}, no constraint"
                )
        for (name, _), (following, _) in itertools.pairwise(holes):
            if name == following:
                raise InvalidConstraintError(f"two constraints are given for the name {name!r}")
        object.__setattr__(self, "holes", holes)
        check_nesting(self)
        ordered = tuple(sorted(named_pairs(self.imports, "imports"), key=lambda one: one[0]))
        for name, text in ordered:
            if not isinstance(text, str):
                raise InvalidConstraintError(f"the grammar {name!r} is no text")
        for (name, _), (following, _) in itertools.pairwise(ordered):
            if name == following:
                raise InvalidConstraintError(f"two grammars are given for the name {name!r}")
        object.__setattr__(self, "imports", ordered)

    @classmethod
    def named(cls, name: str) -> Lark:
        """A grammar of the library, e.g. ``Lark.named("sql_select")``; see ``grammar_names``.

        Raises InvalidConstraintError where there is none of that name.
        """
        return cls(read_grammar(name).text)

    def inner(self) -> tuple[Structure, ...]:
        return tuple(filling for _, filling in self.holes)

    def digest(self) -> str:
        holes = [(name, filling.digest()) for name, filling in self.holes]
        return digest_of("lark", (self.text, self.start, self.imports, holes, self.reading))


class RegexDialect(StrEnum):
    """Whose regular expressions a pattern is one of."""

    PYTHON = "python"
    """Those of the module ``re``."""
    ECMA = "ecma"
    """Those of ECMA-262 in Unicode mode."""


@dataclass(frozen=True, slots=True)
class Regex(Structure):
    """A regular expression that the whole answer matches."""

    pattern: str
    dialect: RegexDialect = RegexDialect.PYTHON

    if TYPE_CHECKING:
        # What may be given is wider than what is kept.
        def __init__(
            self,
            pattern: str,
            dialect: RegexDialect | Literal["python", "ecma"] = RegexDialect.PYTHON,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "dialect", word_of(RegexDialect, self.dialect, "dialect", "regex"))

    def digest(self) -> str:
        return digest_of("regex", (self.pattern, self.dialect))


@dataclass(frozen=True, slots=True)
class Ebnf(Structure):
    """A context-free grammar as llama.cpp (GBNF) and xgrammar have it."""

    text: str
    root: str = "root"
    """The rule that the whole answer is a text of."""

    def digest(self) -> str:
        return digest_of("ebnf", (self.text, self.root))


@dataclass(frozen=True, slots=True)
class Choice(Structure):
    """One of several texts."""

    options: tuple[str, ...]

    if TYPE_CHECKING:
        # What may be given is wider than what is kept.
        def __init__(self, options: Iterable[str]) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.options
        if isinstance(given, str):
            raise InvalidConstraintError(
                f"the options are one text, {given[:20]!r}", hint="pass a list of texts"
            )
        options = tuple(self.options)
        for option in options:
            if not isinstance(option, str):
                raise InvalidConstraintError(f"the option {option!r} is no text")
        if not options:
            raise InvalidConstraintError("there are no options to choose from")
        object.__setattr__(self, "options", options)

    def digest(self) -> str:
        return digest_of("choice", self.options)


def named_pairs(given: object, what: str) -> list[tuple[str, Any]]:
    """Names, each with what is given for it; raises InvalidConstraintError for what is no such."""
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidConstraintError(
            f"the {what} are {given!r}, which names nothing", hint="pass a dictionary by name"
        )
    found: list[tuple[str, Any]] = []
    for number, pair in enumerate(pairs, start=1):
        match pair:
            case (str(name), value):
                found.append((name, value))
            case _:
                raise InvalidConstraintError(
                    f"number {number} of the {what} is {pair!r}, no name and what is given for it",
                    hint="pass a dictionary by name",
                )
    return found


def check_nesting(constraint: Structure) -> None:
    """Raise LimitExceededError for what nests deeper than MAX_NESTING, or has very many parts."""
    level, depth, parts = list(constraint.inner()), 1, 0
    while level:
        depth += 1
        parts += len(level)
        if depth > MAX_NESTING:
            raise LimitExceededError(
                f"constraints stand more than {MAX_NESTING} deep inside of one another",
                limit=MAX_NESTING,
                field="constraint",
                hint="write what nests as a grammar",
            )
        if parts > MAX_PARTS:
            raise LimitExceededError(
                f"the constraint has more than {MAX_PARTS} parts",
                limit=MAX_PARTS,
                field="constraint",
                hint="repeat what is the same, and list texts as a Choice",
            )
        level = [inner for part in level for inner in part.inner()]


def digest_of(kind: str, parts: object) -> str:
    """A key of a constraint: its kind and what it says."""
    return f"{kind}:" + hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


Constraint: TypeAlias = Structure | None
"""What an answer must look like; ``None`` allows every text."""


class Forcing(StrEnum):
    """Which tokens are taken without asking the model."""

    OFF = "off"
    """None, and none is guessed: every token costs a model call; what speed is measured against."""
    STRICT = "strict"
    """A token is taken where the mask holds exactly one; the answer equals that of OFF."""
    CANONICAL = "canonical"
    """Where the next bytes are certain, they are spelled as the tokenizer itself would."""


class Rank(StrEnum):
    """What tells which of several drawn answers are best."""

    LIKELIHOOD = "likelihood"
    """How likely the model thinks them."""
    REWARD = "reward"
    """The score of a reward model that the server has loaded beside it."""


class FinishReason(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    """The structure is complete: nothing may follow."""
    STOP = "stop"
    """The model chose to end where it was allowed to."""
    LENGTH_CLOSED = "length_closed"
    """The token budget forced the answer onto its shortest way to a valid end."""
    LENGTH = "length"
    """The token budget ran out in an answer without a constraint."""
    STOP_SEQUENCE = "stop_sequence"
    """A stop string or stop token of the caller came; the text may be unfinished."""
    DEADLINE_CLOSED = "deadline_closed"
    """The deadline came near, and the answer took its shortest way to a valid end."""
    DEADLINE = "deadline"
    """The deadline came near in an answer without a constraint."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; the server applies the model's chat template to all of them."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ("system", "user", "assistant"):
            raise RequestError(
                f"role {self.role!r} is none of 'system', 'user', 'assistant'",
                field="messages.role",
            )


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to be made."""

    prompt: str | tuple[Message, ...]
    """Plain text goes to the model as it is; messages go through its chat template."""
    constraint: Constraint = None
    max_tokens: int = 256
    """Budget of the answer in tokens, forced ones included."""
    sampling: Sampling = field(default_factory=Sampling)
    forcing: Forcing = Forcing.CANONICAL
    show_schema: bool = False
    """Tell the model the schema in a system message; only with messages."""
    stop: tuple[str, ...] = ()
    """The answer ends where one of these strings is complete, whatever tokens spell it."""
    stop_tokens: tuple[TokenId, ...] = ()
    """The answer ends with one of these tokens."""
    include_stop: bool = False
    """Leave the stop string, or the text of the stop token, in the answer's text."""
    top_logprobs: int | None = None
    """Log-probabilities of each token, and of so many of the likeliest allowed ones beside it;
    ``None`` gives none at all."""
    priority: int = 0
    """The smaller it is, the earlier the request is served where it has to wait."""
    deadline: float | None = None
    """Seconds after which the answer has to be there; one that is not complete by then is closed.

    ``None`` is no deadline.
    """
    n: int = 1
    """Answers to be given. Answer ``i`` of a seed is that of a request with ``seed + i``, modulo
    2**63."""
    best_of: int | None = None
    """Answers to be drawn, of which the ``n`` best by ``rank`` are given; ``None`` gives all."""
    rank: Rank = Rank.LIKELIHOOD
    """What tells which are best; only with ``best_of``."""
    beams: Beams | None = None
    """Search for the likeliest answers instead of drawing them."""
    cache_salt: str = ""
    """Beginnings of prompts are shared in the cache by requests of the same salt alone."""

    @property
    def drawn(self) -> int:
        """Answers that are made by drawing tokens."""
        return self.n if self.best_of is None else self.best_of

    @property
    def has_candidates(self) -> bool:
        """Whether more is asked for than one plain answer."""
        return self.n > 1 or self.best_of is not None or self.beams is not None

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("the prompt is empty", field="prompt")
        if self.max_tokens < 1:
            raise RequestError(f"max_tokens {self.max_tokens!r} is below 1", field="max_tokens")
        if self.show_schema and isinstance(self.prompt, str):
            raise RequestError(
                "show_schema needs messages",
                field="show_schema",
                hint="pass the prompt as messages, or write the schema into it",
            )
        if self.show_schema and self.constraint is None:
            raise RequestError("show_schema needs a constraint", field="show_schema")
        if self.show_schema and not isinstance(self.constraint, JsonSchema):
            raise RequestError("show_schema needs a JSON Schema", field="show_schema")
        self._check_stops()
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= MOST_TOP_LOGPROBS:
            raise RequestError(
                f"top_logprobs {self.top_logprobs!r} is not between 0 and {MOST_TOP_LOGPROBS}",
                field="top_logprobs",
            )
        if not -HIGHEST_PRIORITY <= self.priority <= HIGHEST_PRIORITY:
            raise RequestError(
                f"priority {self.priority!r} is not between {-HIGHEST_PRIORITY} and "
                f"{HIGHEST_PRIORITY}",
                field="priority",
            )
        if self.deadline is not None and not 0 < self.deadline <= LONGEST_DEADLINE:
            raise RequestError(
                f"deadline {self.deadline!r} is not above 0 and at most {LONGEST_DEADLINE:g}",
                field="deadline",
            )
        if len(self.cache_salt.encode(errors="replace")) > MOST_SALT_BYTES:
            raise LimitExceededError(
                f"cache_salt has more than {MOST_SALT_BYTES} bytes",
                limit=MOST_SALT_BYTES,
                field="cache_salt",
                hint="a hash of what it is made of will do",
            )
        check_counts(self.n, self.best_of, self.beams)
        if self.best_of is None and self.rank is not Rank.LIKELIHOOD:
            raise RequestError(
                f"rank {self.rank.value!r} needs best_of, which says among how many answers",
                field="rank",
            )
        check_sampling(self.drawn, self.beams, self.sampling)
        self._check_beams()

    def _check_beams(self) -> None:
        if self.beams is None:
            return
        for name, is_set in (
            ("stop", self.stop),
            ("stop_tokens", self.stop_tokens),
            ("top_logprobs", self.top_logprobs is not None),
        ):
            if is_set:
                raise RequestError(
                    f"{name} is not known to beams", field=name, hint="leave it or the beams out"
                )

    def _check_stops(self) -> None:
        for name, stops in (("stop", self.stop), ("stop_tokens", self.stop_tokens)):
            if len(stops) > MOST_STOPS:
                raise LimitExceededError(
                    f"{name} holds {len(stops)}, above the limit of {MOST_STOPS}",
                    limit=MOST_STOPS,
                    field=name,
                )
        for token in self.stop_tokens:
            if token < 0:
                raise RequestError(f"stop token {token!r} is below 0", field="stop_tokens")
        if "" in self.stop:
            raise RequestError("a stop string is empty", field="stop")
        if self.include_stop and not self.stop and not self.stop_tokens:
            raise RequestError("include_stop needs stop or stop_tokens", field="include_stop")


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer, or all candidates of a request, cost in tokens and model calls."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Tokens of the prompt that an earlier request had left in the cache."""
    sampled_tokens: int = 0
    """Tokens of the answer that the model chose."""
    forced_tokens: int = 0
    """Tokens of the answer that the constraint left no choice about."""
    model_calls: int = 0
    """Forward passes that this answer took part in, that of its prompt included."""
    drafted_tokens: int = 0
    """Tokens that were guessed; what is forced behind a guess is not counted."""
    accepted_tokens: int = 0
    """Guessed tokens that the model agreed with; they count as sampled, too."""
    drafted_calls: int = 0
    """Model calls that had guesses to judge."""
    corrected_calls: int = 0
    """Those of them that ended at a place where every guess was wrong."""
    shared_tokens: int = 0
    """Tokens that candidates or beams took over from another one, and did not compute again."""
    copied_tokens: int = 0
    """Those of them that had to be copied, as they shared a block of memory with later ones."""

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer."""
        return self.sampled_tokens + self.forced_tokens

    @property
    def acceptance_rate(self) -> float:
        """The share of guessed tokens that the model agreed with; 0 where none was guessed."""
        return self.accepted_tokens / max(1, self.drafted_tokens)

    @property
    def mean_accepted_length(self) -> float:
        """Accepted guesses in a model call that had any to judge; 0 where none had."""
        return self.accepted_tokens / max(1, self.drafted_calls)

    @property
    def correction_rate(self) -> float:
        """The share of calls with guesses that ended where every guess was wrong."""
        return self.corrected_calls / max(1, self.drafted_calls)

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """What several answers cost together."""
        every = tuple(usages)
        names = [each.name for each in fields(cls)]
        return cls(**{name: sum(getattr(usage, name) for usage in every) for name in names})

    def since(self, earlier: Usage) -> Usage:
        """What was added after an earlier one."""
        names = [each.name for each in fields(Usage)]
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in names})


@dataclass(frozen=True, slots=True)
class Timing:
    """When what an answer waited for came, in seconds."""

    compiling_seconds: float = 0.0
    """Prompt and constraint, before the request could wait for room."""
    waiting_seconds: float = 0.0
    """For room in the batch and in the cache; once started over, it does not count again."""
    first_token_seconds: float | None = None
    """From the moment the engine took the request to the first token that the model chose;
    ``None`` where every token was certain."""
    mean_inter_token_seconds: float | None = None
    """From that moment to the last token chosen, for each token of the answer but the first;
    ``None`` where one model call brought all."""
    max_inter_token_seconds: float | None = None
    """The longest pause between model calls that brought tokens; ``None`` where one brought all."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that was allowed at a place of an answer, and how likely it was there."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character; none for a token that ends the answer."""
    raw: float
    masked: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely a token of an answer was: natural logarithms, before bias and temperature."""

    token: TokenId
    text: bytes
    """Its bytes, which may be part of a character."""
    raw: float | None
    """By the model alone; ``None`` for a forced token, which the model was not asked about."""
    masked: float | None
    """By the model among the allowed tokens; ``raw - masked`` is the logarithm of their share."""
    top: tuple[Alternative, ...] = ()
    """The likeliest allowed tokens, likeliest first."""

    @property
    def is_forced(self) -> bool:
        """Whether the token was taken without asking the model."""
        return self.raw is None


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """One of the answers to a request that asked for several."""

    index: int
    """Which of the drawn answers it is, or which of the beams by their score; from 0."""
    text: str
    tokens: tuple[TokenId, ...]
    finish_reason: FinishReason
    score: float
    """By which the best are found, higher is better; see docs/candidates.md."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, where the request asked for it."""


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One answer; of a request that asked for several, the first of them."""

    text: str
    tokens: tuple[TokenId, ...]
    """The answer's tokens, without an end-of-sequence token; a stop sequence is among them."""
    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """From the moment the engine took the request to its last token."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """For each of ``tokens``, where the request asked for it."""
    timing: Timing = field(default_factory=Timing)
    candidates: tuple[CandidateResult, ...] = ()
    """All answers where ``n``, ``best_of`` or ``beams`` was set: as drawn, or the best first where
    they were ranked. Fewer than ``n`` where beams found no more."""
