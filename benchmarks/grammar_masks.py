"""Masks of Lark grammars over long texts, side by side with llguidance, which reads them too.

``python benchmarks/grammar_masks.py [--tokens 2000] [--texts 3] [GRAMMAR ...]``

For each grammar of the library and each engine: compile plus first mask, then every text token by
token, mask and step timed together. Texts come first to a fresh compile, so nothing is cached but
what the texts before them left; the last column is the same texts once more. Times are those of the
calling thread, in microseconds but for compiling. BENCH_TOKENIZER names the folder of a tokenizer.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import string
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import llguidance
import llguidance.hf
import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from guided.constraint.compiler import ConstraintCompiler
from guided.library import read_grammar
from guided.spec import Lark, TokenId
from guided.tokens.huggingface import vocabulary_from_tokenizer


class Matcher(Protocol):
    """A position in a text, moved in place."""

    def mask(self) -> None: ...
    def accept(self, token: int) -> bool: ...
    def finished(self) -> bool: ...


class _Guided:
    def __init__(self, compiler: ConstraintCompiler, text: str) -> None:
        self.compiled = compiler._compile(Lark(text))
        self.at = self.compiled.start()

    def begin(self) -> None:
        self.at = self.compiled.start()

    def mask(self) -> None:
        self.at.mask()

    def accept(self, token: int) -> bool:
        self.at = self.at.advance(TokenId(token))
        return True

    def finished(self) -> bool:
        return self.at.is_accepting


class _Llguidance:
    def __init__(self, tokenizer: Any, words: np.ndarray[Any, Any], text: str) -> None:
        grammar = llguidance.LLMatcher.grammar_from_lark(text)
        self.first = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        if self.first.is_error():
            raise ValueError(self.first.get_error())
        self.words = words
        self.begin()

    def begin(self) -> None:
        self.at = self.first.deep_copy()

    def mask(self) -> None:
        self.at.unsafe_compute_mask_ptr(self.words.ctypes.data, self.words.nbytes)

    def accept(self, token: int) -> bool:
        return bool(self.at.consume_token(token))

    def finished(self) -> bool:
        return bool(self.at.is_accepting())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grammars", nargs="*", default=[*_WRITERS])
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--texts", type=int, default=3)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(os.environ["BENCH_TOKENIZER"])
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    vocabulary = vocabulary_from_tokenizer(tokenizer)
    compiler = ConstraintCompiler(vocabulary)
    compiler.rehearse()
    foreign = llguidance.hf.from_tokenizer(tokenizer, n_vocab=len(vocabulary))
    words = np.zeros((len(vocabulary) + 31) // 32, dtype=np.int32)
    engines: dict[str, Callable[[str], Any]] = {
        "guided": lambda text: _Guided(compiler, text),
        "llguidance": lambda text: _Llguidance(foreign, words, text),
    }
    for engine in engines.values():  # what a process needs once
        warm = engine(read_grammar("arithmetic").text)
        for token in tokenizer.encode("1+(x*2)", add_special_tokens=False):
            warm.mask()
            warm.accept(token)
    print(
        f"{'grammar':12}{'engine':12}{'compile ms':>11}{'mean':>9}{'p50':>9}{'p99':>9}{'max':>9}"
        f"{'last/first':>11}{'warm':>8}"
    )
    gc.disable()
    for name in options.grammars:
        writer, rng = _WRITERS[name], random.Random(1)
        texts = [
            tokenizer.encode(writer(rng, options.tokens), add_special_tokens=False)
            for _ in range(options.texts)
        ]
        for engine_name, engine in engines.items():
            _measure(name, engine_name, engine, texts)


def _measure(name: str, engine_name: str, engine: Callable[[str], Any], texts: Any) -> None:
    text = read_grammar(name).text
    best = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        matcher = engine(text)
        matcher.mask()
        best = min(best, time.thread_time() - begun)
    first = np.array([each for tokens in texts for each in _walk(matcher, tokens)])
    again = np.array([each for tokens in texts for each in _walk(matcher, tokens)])
    lengths = [len(tokens) for tokens in texts]
    quarter = max(1, lengths[-1] // 4)
    last = first[-lengths[-1] :]
    growth = last[-quarter:].mean() / last[:quarter].mean()
    print(
        f"{name:12}{engine_name:12}{best * 1e3:11.1f}{first.mean():9.1f}{np.median(first):9.1f}"
        f"{np.percentile(first, 99):9.1f}{first.max():9.0f}{growth:11.2f}{again.mean():8.1f}"
    )


def _walk(matcher: Any, tokens: list[int]) -> Iterator[float]:
    matcher.begin()
    for token in tokens:
        begun = time.thread_time()
        matcher.mask()
        taken = matcher.accept(token)
        yield (time.thread_time() - begun) * 1e6
        assert taken, token
    assert matcher.finished()


# --- texts ----------------------------------------------------------------------------------------


def _json(rng: random.Random, size: int) -> str:
    def value(depth: int) -> object:
        kind = rng.random()
        if depth and kind < 0.3:
            return {_word(rng): value(depth - 1) for _ in range(rng.randint(1, 5))}
        if depth and kind < 0.5:
            return [value(depth - 1) for _ in range(rng.randint(0, 6))]
        if kind < 0.75:
            return " ".join(_word(rng) for _ in range(rng.randint(1, 6)))
        return rng.choice([True, None, rng.randint(-9999, 9999), round(rng.random() * 100, 3)])

    items: list[object] = []
    while len(text := json.dumps(items, indent=rng.choice([None, 1]))) < 3 * size:
        items.append(value(5))
    return text


def _arithmetic(rng: random.Random, size: int) -> str:
    def term(depth: int) -> str:
        kind = rng.random()
        if depth and kind < 0.35:
            return f"({total(depth - 1)})"
        if depth and kind < 0.5:
            given = ", ".join(total(depth - 1) for _ in range(rng.randint(0, 3)))
            return f"{_word(rng)}({given})"
        if kind < 0.75:
            return _word(rng)
        return str(rng.choice([rng.randint(0, 9999), round(rng.random() * 100, 3)]))

    def total(depth: int) -> str:
        parts = [term(depth)]
        for _ in range(rng.randint(0, 3)):
            parts += [rng.choice("+-*/^"), term(depth)]
        return rng.choice(["", " "]).join(parts)

    text = total(6)
    while len(text) < 2.4 * size:
        text += f" {rng.choice('+-*/')} {term(6)}"
    return text


_WORDS = ("name", "value", "total", "count", "index", "price", "user", "x", "y", "alpha", "result")


def _word(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(_WORDS)
    return "".join(rng.choices(string.ascii_letters, k=rng.randint(1, 8)))


_WRITERS: dict[str, Callable[[random.Random, int], str]] = {
    "json": _json,
    "arithmetic": _arithmetic,
}

if __name__ == "__main__":
    main()
