"""Measures reuse of prefixes: `python -m benchmarks.prefix_reuse [MODEL] [--tokens 1000]`.

Two requests share a beginning of this many tokens, and each adds a question of its own. Prints for
each of several beginnings the time to the first token of the first request and of the second, their
ratio, and how many tokens the second found in the cache; and the median ratio.
"""

from __future__ import annotations

import argparse
import random

import numpy as np

from guided.engine import Engine, load_engine
from guided.spec import GenerationRequest, GenerationResult

_WORDS = ("river", "stone", "seven", "green", "after", "house", "light", "paper", "water", "north")
_BEGINNINGS = 5
_QUESTIONS = ("\nThe first of these words is", "\nThe word that comes most often is")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to first token behind a known beginning.")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    engine = load_engine(options.model, threads=options.threads)
    ratios = []
    for number in range(_BEGINNINGS):
        # About one token per word; no two beginnings are the same.
        draw = random.Random(number)
        beginning = " ".join(draw.choices(_WORDS, k=options.tokens))
        first, second = (answer(engine, beginning + question) for question in _QUESTIONS)
        times = [seconds_to_first_token(result) for result in (first, second)]
        ratios.append(times[1] / times[0])
        usage = second.usage
        print(
            f"{first.usage.prompt_tokens} tokens {1e3 * times[0]:7.1f} ms, then "
            f"{usage.prompt_tokens} of which {usage.reused_tokens} reused "
            f"{1e3 * times[1]:7.1f} ms: {ratios[-1]:.3f}"
        )
    print(f"median ratio {np.median(ratios):.3f}")


def answer(engine: Engine, prompt: str) -> GenerationResult:
    """Answer one request alone."""
    engine.submit("it", GenerationRequest(prompt, max_tokens=4))
    while engine.has_work:
        for finished in engine.step():
            if not isinstance(finished.outcome, GenerationResult):
                raise finished.outcome
            return finished.outcome
    raise AssertionError("a request ended without an outcome")


def seconds_to_first_token(result: GenerationResult) -> float:
    seconds = result.timing.first_token_seconds
    assert seconds is not None, "every token was certain"
    return seconds


if __name__ == "__main__":
    main()
