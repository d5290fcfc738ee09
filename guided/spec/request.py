"""Requests: frozen values, validated when they are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from guided.errors import LimitExceededError, RequestError
from guided.spec.draft_options import check_draft_widths, check_drafters
from guided.spec.option import (
    Option,
    above,
    at_least,
    between,
    check_characters,
    check_kind,
    check_rules,
)
from guided.spec.prompt import EnginePrompt
from guided.spec.reasoning import Reasoning
from guided.spec.request_checks import (
    check_beams,
    check_continued,
    check_drawing,
    check_read_as_given,
    check_shown,
)
from guided.spec.result import TokenId, Verification
from guided.spec.sampling import Sampling, SamplingOptions
from guided.spec.stored import check_salt
from guided.spec.structure import Constraint
from guided.spec.tools import ToolUse

__all__ = [
    "HIGHEST_PRIORITY",
    "MAX_DEADLINE",
    "MAX_MESSAGES",
    "MAX_STOPS",
    "MAX_TOP_LOGPROBS",
    "PATIENCE_SECONDS",
    "Beams",
    "Forcing",
    "GenerationRequest",
    "OnIncomplete",
    "Rank",
    "RequestOptions",
]

MAX_DEADLINE = 86_400.0
"""Seconds; a day."""

PATIENCE_SECONDS = 10.0
"""Waiting time that a level of priority is worth: a request that came this much earlier is served
before one of the next better level."""

MAX_MESSAGES = 4096
"""Most turns of a conversation."""

MAX_STOPS = 64
"""Most stop strings, and most stop tokens, of a request."""

HIGHEST_PRIORITY = 100
"""Priorities range from minus this to this."""

MAX_TOP_LOGPROBS = 20
"""Most likeliest tokens that may be requested at each place of an answer."""

_STOPPING = "Stopping and log-probabilities"
_SEVERAL = "Several answers"
_DRAFTS = "Drafts"


class Forcing(StrEnum):
    """Which tokens are taken without asking the model."""

    OFF = "off"
    """None, and none is drafted: every token costs a model call; the baseline for speed."""
    STRICT = "strict"
    """A token is taken if the mask holds exactly one; the answer equals that of OFF."""
    CANONICAL = "canonical"
    """If the next bytes are certain, they are spelled as the tokenizer itself would."""


class Rank(StrEnum):
    """What ranks several drawn answers."""

    LIKELIHOOD = "likelihood"
    """How likely the model finds them."""
    REWARD = "reward"
    """The score of a reward model that the server has loaded besides."""


class OnIncomplete(StrEnum):
    """What happens to an answer that its budget or its deadline cuts short."""

    CLOSE = "close"
    """It is closed by the shortest completion, and its finish reason says so."""
    ERROR = "error"
    """It raises ``IncompleteAnswerError``, which has its text; of several, the first one's."""


@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: the likeliest answers, instead of drawn ones.

    At each place the ``width`` likeliest beginnings are kept. An answer's score is the sum of the
    log-probabilities of its tokens by the model alone, including forced tokens and the token that
    ends it, divided by (number of those tokens) ** ``length_penalty``.
    """

    width: Annotated[int, Option("Number of beginnings that are kept; at least n.", at_least(1))]
    length_penalty: Annotated[
        float,
        Option(
            "Beams: divide the sum of log-probabilities by the length to this power: 0 compares"
            " sums, 1 means, and more favours longer answers.",
            between(-10, 10),
            group=_SEVERAL,
        ),
    ] = 1.0
    early_stopping: Annotated[
        bool,
        Option("Beams: stop once there are as many answers as beams.", group=_SEVERAL),
    ] = False

    def __post_init__(self) -> None:
        check_kind(self.width, int, "beams.width")
        check_kind(self.early_stopping, bool, "beams.early_stopping")
        check_rules(self, "beams.")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request for an answer."""

    prompt: EnginePrompt
    """Plain text and tokens are passed to the model unchanged; messages go through its chat
    template."""
    constraint: Constraint = None
    max_tokens: Annotated[
        int | None,
        Option("Budget of the answer in tokens, including forced ones.", at_least(1)),
    ] = None
    """A budget that does not fit beside the prompt is an error."""
    default_max_tokens: Annotated[
        int,
        Option(
            "Budget where max_tokens is left out; less where the context leaves less.", at_least(1)
        ),
    ] = 256
    min_tokens: Annotated[
        int | None,
        Option(
            "Tokens that the answer has at least, unless its constraint is complete before.",
            at_least(0),
            group=_STOPPING,
        ),
    ] = None
    """The model's own end is held back; deadlines are not, and stops only by ``stop_after``.
    Without the tokens of thoughts before the answer."""
    sampling: Sampling = field(default_factory=Sampling)
    forcing: Annotated[Forcing, Option("Which tokens are taken without asking the model.")] = (
        Forcing.CANONICAL
    )
    show_schema: Annotated[
        bool, Option("Show the model the schema in a system message; not with a raw prompt.")
    ] = False
    stop: Annotated[
        tuple[str, ...],
        Option("End the answer at this text, even if that leaves it incomplete.", group=_STOPPING),
    ] = ()
    stop_tokens: Annotated[
        tuple[TokenId, ...],
        Option("End the answer at this token, even if that leaves it incomplete.", group=_STOPPING),
    ] = ()
    include_stop: Annotated[
        bool, Option("Keep the stop text or token in the answer's text.", group=_STOPPING)
    ] = False
    stop_after: Annotated[
        int | None,
        Option(
            "Tokens that come before any stop text or token counts.", at_least(0), group=_STOPPING
        ),
    ] = None
    """A stop text that begins among them and ends later counts, and stop tokens are not written
    among them if others may be. Without the tokens of thoughts."""
    top_logprobs: Annotated[
        int | None,
        Option(
            "Return log-probabilities of each token and of the k likeliest allowed in its place.",
            between(0, MAX_TOP_LOGPROBS),
            group=_STOPPING,
        ),
    ] = None
    priority: Annotated[
        int,
        Option(
            "Order among waiting requests; a smaller number is served earlier.",
            between(-HIGHEST_PRIORITY, HIGHEST_PRIORITY),
        ),
    ] = 0
    deadline: Annotated[
        float | None,
        Option(
            "Seconds after which an incomplete answer is closed.",
            above(0, MAX_DEADLINE),
        ),
    ] = None
    n: Annotated[int, Option("Number of answers to return.", at_least(1), group=_SEVERAL)] = 1
    """Answer ``i`` of a seed equals that of a request with ``seed + i``, modulo 2**63."""
    best_of: Annotated[
        int | None, Option("Draw this many answers and return the n best.", group=_SEVERAL)
    ] = None
    rank: Annotated[Rank, Option("How the answers of best-of are ranked.", group=_SEVERAL)] = (
        Rank.LIKELIHOOD
    )
    beams: Annotated[
        Beams | None,
        Option("Search for the likeliest answers with this many beams.", group=_SEVERAL),
    ] = None
    cache_salt: Annotated[
        str,
        Option("Share cached prompts and answers only with requests of the same salt."),
    ] = ""
    model: Annotated[str, Option("Model that should answer, by the server's name for it.")] = ""
    """Empty: the server's only model, or its first."""
    adapter: Annotated[str, Option("LoRA adapter to use, one that the server has loaded.")] = ""
    """Empty: the model alone."""
    on_incomplete: Annotated[
        OnIncomplete | None,
        Option(
            "Whether an answer that its budget or deadline cuts short is closed or an error."
            " Default: the server's choice, or close."
        ),
    ] = None
    drafters: Annotated[
        tuple[str, ...],
        Option(
            "Use only this drafter, one that the server has, or 'none'.",
            group=_DRAFTS,
        ),
    ] = ()
    """Empty: all that the server has; see docs/tree-verify.md."""
    max_drafted: Annotated[
        int | None,
        Option(
            "Maximum number of tokens drafted for one model call, including the runs they force.",
            at_least(0),
            group=_DRAFTS,
        ),
    ] = None
    """``None``: as many as the engine has room for. In any case fewer if fewer pay off."""
    draft_widths: Annotated[
        tuple[int, ...],
        Option(
            "Maximum number of tokens that draft models draft after each token, level by level.",
            group=_DRAFTS,
        ),
    ] = ()
    """Empty: the server's own widths; see docs/draft-models.md."""
    verification: Annotated[
        Verification,
        Option(
            "Rule that decides whether a drafted token is kept; 'typical' is not exact.",
            group=_DRAFTS,
        ),
    ] = Verification.COUPLED
    allow_special_tokens: Annotated[
        bool | None,
        Option(
            "Read text that spells a special token, such as <|im_end|>, as that token. Default:"
            " only in raw prompts, not in messages."
        ),
    ] = None
    """``None``: a plain text is written by the program, which replaces the template, while the
    content of messages is mostly written by others. See docs/intake.md."""
    continue_final_message: Annotated[
        bool,
        Option("Continue the last message, which is the assistant's, instead of answering it."),
    ] = False
    """The answer is what follows; it and the message together fit the constraint. See
    docs/continuing.md."""
    heal: Annotated[
        bool | None,
        Option(
            "Let the answer respell the last tokens of the text that it continues. Default: only"
            " with continue-final-message."
        ),
    ] = None
    report: Annotated[
        bool, Option("Report with the answer how far it is held to each keyword of its schema.")
    ] = False
    """The server makes it while it answers; without a server, ``guided.check`` does."""
    tools: ToolUse | None = None
    """Functions that the answer may call, in addition to or instead of what the constraint says."""

    reasoning: Reasoning | None = None
    """The model thinks first; the budget is one for thoughts and answer together."""

    @property
    def most_tokens(self) -> int:
        """The largest budget that an answer may get, whatever room its prompt leaves."""
        return self.default_max_tokens if self.max_tokens is None else self.max_tokens

    @property
    def drawn(self) -> int:
        """The number of answers that are drawn."""
        return self.n if self.best_of is None else self.best_of

    @property
    def begun(self) -> str:
        """The message that the answer continues; empty where it is a turn of its own."""
        if not self.continue_final_message:
            return ""
        assert isinstance(self.prompt, tuple), "only a message is continued"
        return self.prompt[-1].content

    @property
    def has_candidates(self) -> bool:
        """Whether more than one plain answer is requested."""
        return self.n > 1 or self.best_of is not None or self.beams is not None

    def queue_key(self, received: float) -> float:
        """Return its place in the queue, in seconds of the clock of ``received``: smaller first.

        A priority counts as an earlier or later arrival. So the key never changes, and no request
        waits for ever.
        """
        return received + PATIENCE_SECONDS * self.priority

    def __post_init__(self) -> None:
        if not self.prompt:
            raise RequestError("the prompt is empty", field="prompt")
        if isinstance(self.prompt, tuple) and len(self.prompt) > MAX_MESSAGES:
            raise LimitExceededError(
                f"the conversation has {len(self.prompt)} messages, above the limit of "
                f"{MAX_MESSAGES}",
                limit=MAX_MESSAGES,
                field="messages",
                hint="leave out the oldest, or tell in one message what they said",
            )
        check_rules(self)
        if self.show_schema:
            check_shown(self)
        check_read_as_given(self)
        check_continued(self)
        if self.tools is not None and not isinstance(self.prompt, tuple):
            raise RequestError(
                "tools need messages, in which the model is told of them",
                field="tools",
                hint="pass the prompt as messages",
            )
        if self.report and self.constraint is None:
            raise RequestError("report needs a constraint to report on", field="report")
        if self.reasoning is not None:
            self._check_reasoning(self.reasoning)
        self._check_stops()
        check_drafters(self.drafters)
        if self.draft_widths:
            check_draft_widths(self.draft_widths)
        self._check_verification()
        check_salt(self.cache_salt)
        self._check_counts()
        if self.min_tokens is not None and self.min_tokens > self.most_tokens:
            raise RequestError(
                f"min_tokens {self.min_tokens!r} is above {self._budget_field} "
                f"({self.most_tokens})",
                field="min_tokens",
            )
        if self.beams is not None:
            check_beams(self)
        elif self.drawn > 1:
            check_drawing(self)

    @property
    def _budget_field(self) -> str:
        return "default_max_tokens" if self.max_tokens is None else "max_tokens"

    def _check_reasoning(self, reasoning: Reasoning) -> None:
        if self.beams is not None:
            raise RequestError(
                "beams search for answers, not for thoughts",
                field="reasoning",
                hint="leave beams or reasoning out",
            )
        if reasoning.max_tokens is not None and reasoning.max_tokens >= self.most_tokens:
            raise RequestError(
                f"the thoughts may have {reasoning.max_tokens} tokens, but {self._budget_field} is "
                f"{self.most_tokens} for thoughts and answer together",
                field="reasoning.max_tokens",
                hint="raise max_tokens, or lower it",
            )

    def _check_stops(self) -> None:
        for name, stops in (("stop", self.stop), ("stop_tokens", self.stop_tokens)):
            if len(stops) > MAX_STOPS:
                raise LimitExceededError(
                    f"{name} holds {len(stops)}, above the limit of {MAX_STOPS}",
                    limit=MAX_STOPS,
                    field=name,
                )
        for token in self.stop_tokens:
            if token < 0:
                raise RequestError(f"stop token {token!r} is below 0", field="stop_tokens")
        for text in self.stop:
            if not text:
                raise RequestError("a stop string is empty", field="stop")
            check_characters(text, "stop string", "stop")
        if self.include_stop and not self.stop and not self.stop_tokens:
            raise RequestError("include_stop needs stop or stop_tokens", field="include_stop")
        if self.stop_after is not None and not self.stop and not self.stop_tokens:
            raise RequestError("stop_after needs stop or stop_tokens", field="stop_after")

    def _check_verification(self) -> None:
        """Raise RequestError if nothing is drafted that could be verified in another way."""
        if self.verification is Verification.COUPLED:
            return
        if self.beams is not None or self.sampling.is_contrastive:
            search = "beams" if self.beams is not None else "contrastive search"
            raise RequestError(
                f"verification {self.verification.value!r} does not apply to {search}, "
                "where nothing is guessed",
                field="verification",
                hint=f"leave it or {search} out",
            )

    def _check_counts(self) -> None:
        if self.best_of is not None and self.best_of < self.n:
            raise RequestError(f"best_of {self.best_of!r} is below n ({self.n})", field="best_of")
        if self.beams is not None and self.best_of is not None:
            raise RequestError(
                "best_of ranks answers that are drawn, and beams draw none",
                field="best_of",
                hint="leave it out; the answers of beams are the best first",
            )
        if self.beams is not None and self.n > self.beams.width:
            raise RequestError(
                f"n {self.n!r} is above the width of the beams ({self.beams.width})",
                field="n",
                hint="widen the beams, or ask for fewer",
            )
        if self.best_of is None and self.rank is not Rank.LIKELIHOOD:
            raise RequestError(
                f"rank {self.rank.value!r} needs best_of, which says among how many answers",
                field="rank",
            )


class RequestOptions(SamplingOptions, total=False):
    """The options of a ``GenerationRequest`` as keyword arguments, for type checkers."""

    max_tokens: int | None
    default_max_tokens: int
    min_tokens: int | None
    forcing: Forcing
    show_schema: bool
    stop: str | Iterable[str]
    stop_tokens: Iterable[int]
    include_stop: bool
    stop_after: int | None
    top_logprobs: int | None
    priority: int
    deadline: float | None
    n: int
    best_of: int | None
    rank: Rank | Literal["likelihood", "reward"]
    beams: Beams | None
    cache_salt: str
    model: str
    adapter: str
    on_incomplete: OnIncomplete | Literal["close", "error"] | None
    drafters: str | Iterable[str]
    max_drafted: int | None
    draft_widths: Iterable[int]
    verification: Verification | Literal["coupled", "rejection", "typical"]
    allow_special_tokens: bool | None
    continue_final_message: bool
    heal: bool | None
    report: bool
