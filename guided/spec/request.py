"""What a caller asks for: frozen values, validated when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from guided.errors import LimitExceededError, RequestError
from guided.spec.candidates import Beams, check_counts, check_sampling
from guided.spec.constraints import JsonSchema
from guided.spec.sampling import Sampling
from guided.spec.structure import Constraint
from guided.spec.token_id import TokenId

__all__ = [
    "HIGHEST_PRIORITY",
    "LONGEST_DEADLINE",
    "MOST_SALT_BYTES",
    "MOST_STOPS",
    "MOST_TOP_LOGPROBS",
    "Forcing",
    "GenerationRequest",
    "Message",
    "OnIncomplete",
    "Rank",
]

LONGEST_DEADLINE = 86_400.0
"""Seconds; a day."""

MOST_SALT_BYTES = 256

MOST_STOPS = 64
"""Stop strings, and stop tokens, of one request."""

HIGHEST_PRIORITY = 100
"""Priorities reach as far below zero, too."""

MOST_TOP_LOGPROBS = 20
"""Likeliest tokens that may be asked for at each place of an answer."""


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


class OnIncomplete(StrEnum):
    """What becomes of an answer that its budget or its deadline cuts short."""

    CLOSE = "close"
    """It is closed along its shortest way to a valid end, and its finish reason says so."""
    ERROR = "error"
    """It is an ``IncompleteAnswerError``, which has its text; of several, the first such one."""


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
    on_incomplete: OnIncomplete = OnIncomplete.CLOSE
    """What becomes of an answer that its budget or its deadline cuts short."""

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
