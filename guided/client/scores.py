"""Asks how likely a model finds given texts after a prompt.

Each text is an answer that has no choice: a search for the likeliest one finds it, and its score is
the sum of the log-probabilities of its tokens, by the model alone. One call of the model reads all
tokens of a text that the tokenizer spells in one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from guided.client.answer import Answer
from guided.client.options import OPTIONS
from guided.client.prompt import Prompt
from guided.client.request import Request
from guided.errors import GuidedError, LimitExceededError, RequestError
from guided.spec import Beams, Choice, Forcing, OnIncomplete

__all__ = ["Score", "ScoreOptions", "read_scores", "score_requests"]

MAX_CHARACTERS: Final = 49_999
"""Most characters of a text; its recogniser has a state before and after each."""
MAX_BYTES: Final = 59_997
"""Most bytes of a text in UTF-8, likewise."""

_SUM: Final = Beams(1, length_penalty=0)


class ScoreOptions(TypedDict, total=False):
    """The options of a request that are about its prompt and its place among others."""

    adapter: str
    allow_special_tokens: bool | None
    cache_salt: str
    deadline: float | None
    model: str
    priority: int


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a text is after a prompt."""

    text: str
    logprob: float
    """The natural logarithm of its probability: the sum of those of its tokens, without an end."""
    num_tokens: int
    """The tokens that spell it."""


def score_requests(
    prompt: Prompt, texts: Iterable[str], options: ScoreOptions
) -> list[Request[str]]:
    """Return a request for each text; raises RequestError for what is none, or a wrong option."""
    known = ScoreOptions.__annotations__
    for name in options:
        if name in OPTIONS and name not in known:
            raise RequestError(
                f"texts are scored by the model alone, so {name} does not apply",
                field=name,
                hint=f"leave it out; there is {', '.join(known)}",
            )
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise RequestError(
            f"texts is {texts!r:.80}, which is not a collection of strings",
            field="texts",
            hint="pass a list of strings",
        )
    listed = [*texts]
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise RequestError(
                f"texts[{index}] is {text!r:.80}, which is not a string", field=f"texts[{index}]"
            )
        _check_length(text, f"texts[{index}]")
    if not isinstance(prompt, str) and isinstance(prompt, Iterable):
        prompt = [*prompt]
    return [_request(prompt, text, options) for text in listed]


def _check_length(text: str, field: str) -> None:
    """Raise LimitExceededError for a text that is too long to be scored at once."""
    num_bytes = len(text.encode(errors="surrogatepass"))
    for size, most, unit in (
        (len(text), MAX_CHARACTERS, "characters"),
        (num_bytes, MAX_BYTES, "bytes"),
    ):
        if size > most:
            raise LimitExceededError(
                f"{field} has {size:,} {unit}, and a text of at most {most:,} is scored at once",
                limit=most,
                field=field,
                hint="after a guided.RawPrompt score it in parts, each with the parts before it in"
                " the prompt, and add up their logprob",
            )


def _request(prompt: Prompt, text: str, options: Any) -> Request[str]:
    # A token has at least one byte. What is not used of a budget costs nothing.
    most = max(1, len(text.encode(errors="surrogatepass")))
    return Request(
        prompt,
        grammar=Choice([text]),
        beams=_SUM,
        forcing=Forcing.CANONICAL,
        # What a deadline closes would have the score of a part of its text.
        on_incomplete=OnIncomplete.ERROR,
        default_max_tokens=most,
        **options,
    )


def read_scores(
    requests: Sequence[Request[str]], outcomes: Sequence[Answer[str] | GuidedError]
) -> list[Score]:
    """Return the scores of texts in their order; raises the first error among the outcomes."""
    scores = []
    for request, outcome in zip(requests, outcomes, strict=True):
        if isinstance(outcome, GuidedError):
            raise outcome
        (found,) = outcome.candidates
        assert isinstance(request.grammar, Choice), "the constraint that it was made with"
        assert found.score is not None, "beams have scores"
        scores.append(Score(request.grammar.options[0], found.score, found.num_tokens))
    return scores
