"""How much a constraint counts in routing, by the engines' reports of answers."""

from __future__ import annotations

import pytest

from guided.spec import Timing, Usage
from guided_service.ray.affinity import Affinity
from guided_service.ray.worth import UNKNOWN_BYTES, Worth

DIGEST = b"constraint"
LONG = 4096
"""Bytes of a prompt; there are four for each token."""


def learn(
    worth: Worth,
    *,
    compiling: float = 0.0,
    reading: float = 0.0,
    size: int = LONG,
    reused: int = 0,
    digest: bytes | None = DIGEST,
) -> None:
    """Report an answer that waited ten seconds for room."""
    first = compiling + 10.0 + reading
    worth.learn(
        Affinity((), digest, size),
        Usage(prompt_tokens=size // 4, reused_tokens=reused),
        Timing(compiling, 10.0, first),
    )


def bytes_of(worth: Worth, digest: bytes = DIGEST) -> int:
    return worth.weighed(Affinity((), digest)).constraint_bytes


def test_nothing_is_known_at_first() -> None:
    worth = Worth()
    assert bytes_of(worth) == UNKNOWN_BYTES
    assert worth.weighed(Affinity((b"a",))) == Affinity((b"a",)), "nothing to weigh"


@pytest.mark.parametrize(
    ("compiling", "reading", "reused", "worth"),
    [
        (0.1, 0.2, 0, LONG // 2),
        (0.1, 0.2, 512, LONG // 4),  # half of the prompt took as long
        (2.0, 0.2, 0, 10 * LONG),
        (1e-9, 0.2, 0, 1),  # enough to tell two engines apart
    ],
)
def test_it_counts_for_as_much_of_a_prompt_as_is_computed_meanwhile(
    compiling: float, reading: float, reused: int, worth: int
) -> None:
    learned = Worth()
    learn(learned, compiling=compiling, reading=reading, reused=reused)
    assert bytes_of(learned) == worth


def test_short_prompts_say_nothing_of_what_a_byte_takes() -> None:
    worth = Worth()
    learn(worth, compiling=0.1, reading=0.2, size=256)
    learn(worth, compiling=0.1, reading=0.2, reused=LONG // 4 - 64)
    assert bytes_of(worth) == UNKNOWN_BYTES
    learn(worth, reading=0.2)
    assert bytes_of(worth) == LONG // 2


def test_engines_that_have_it_take_nothing_from_what_it_counts_for() -> None:
    worth = Worth()
    learn(worth, compiling=0.1, reading=0.2)
    for _ in range(100):
        learn(worth, compiling=0.0, reading=0.2)
    assert bytes_of(worth) == LONG // 2


def test_prompts_that_waited_for_others_do_not_count() -> None:
    worth = Worth()
    for i in range(12):
        learn(worth, compiling=0.1, reading=0.2 if i % 3 == 0 else 5.0)
    assert bytes_of(worth) == LONG // 2


def test_one_that_is_new_counts_as_others_did_when_they_were() -> None:
    worth = Worth()
    learn(worth, compiling=0.1, reading=0.2)
    learn(worth, compiling=0.3, reading=0.2, digest=b"other")
    learn(worth, reading=0.2, digest=None)
    assert bytes_of(worth, b"new") == LONG


def test_what_is_kept_is_bounded() -> None:
    worth = Worth()
    for i in range(12_000):
        learn(worth, compiling=0.1 + i, reading=0.2, digest=str(i).encode())
    assert bytes_of(worth, b"11999") == pytest.approx(11_999.1 * LONG / 0.2, rel=1e-6)
    # Like a new one: the mean of the last 64.
    assert bytes_of(worth, b"0") == pytest.approx((11_999.1 - 31.5) * LONG / 0.2, rel=1e-6)
