"""Random grammars with random prompts, in every kind of request with a determined answer."""

from __future__ import annotations

import random
from collections.abc import Iterator

from guided.constraint import ConstraintCompiler
from guided.errors import GuidedError
from guided.spec import Forcing, GenerationRequest, Lark, Sampling, Verification
from tests.engine.finite_language import make_vocabulary
from tests.kit.fuzz_grammars import Grammars

__all__ = ["COMPILER", "free_requests", "random_requests"]

COMPILER = ConstraintCompiler(make_vocabulary())
_PIECES = ("a", "b", "ab", "abc", "bc", "name", "12", "é", "_", " ")
_GREEDY = (
    *(Sampling(),) * 3,
    Sampling(repetition_penalty=1.3),
    Sampling(no_repeat_ngram_size=3),
    Sampling(logit_bias=((int.from_bytes(b"a") + 2, 3.0),)),
)
_PROMPTS_OF_A_GRAMMAR = 2


def random_requests(rng: random.Random, count: int) -> dict[str, GenerationRequest]:
    """Pairs of a grammar and a prompt; some prompts begin alike."""
    grammars = _grammars(rng)
    requests: dict[str, GenerationRequest] = {}
    while len(requests) < count:
        grammar, beginning = next(grammars), _text(rng, 4)
        for _ in range(_PROMPTS_OF_A_GRAMMAR):
            requests[str(len(requests))] = _request(rng, grammar, beginning)
    return dict([*requests.items()][:count])


def free_requests(rng: random.Random, count: int) -> dict[str, GenerationRequest]:
    """Long answers without a constraint."""
    return {
        f"free {number}": GenerationRequest(
            prompt=_text(rng, 12),
            max_tokens=rng.randint(20, 40),
            sampling=rng.choice(_GREEDY),
            verification=rng.choice([*Verification]),
        )
        for number in range(count)
    }


def _request(rng: random.Random, grammar: Lark, beginning: str) -> GenerationRequest:
    return GenerationRequest(
        prompt=beginning + _text(rng, 12),
        constraint=grammar,
        max_tokens=rng.randint(8, 24),
        sampling=rng.choice(_GREEDY),
        forcing=rng.choice([*Forcing]),
        verification=rng.choice([*Verification]),
    )


def _grammars(rng: random.Random) -> Iterator[Lark]:
    """Grammars that have a text, one of which fits the smallest budget of an answer."""
    subject = Grammars()
    while True:
        grammar = Lark(subject.draw(rng).lark)
        try:
            matcher = COMPILER.start(grammar)
        except GuidedError:
            continue
        if matcher.can_complete_within(8) and not matcher.is_complete:
            yield grammar


def _text(rng: random.Random, most: int) -> str:
    return "".join(rng.choices(_PIECES, k=rng.randint(1, most)))
