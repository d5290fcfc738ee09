"""Compares masks of grammars over long texts with llguidance and xgrammar.

``python -m benchmarks.grammar_masks [--tokens 2000] [--texts 3] [--plot PATH] [GRAMMAR ...]``

For each grammar of the library and each engine: compiling plus the first mask, then every text
token by token, with mask and step timed together. Texts run first on a fresh compile: nothing is
cached but what the texts before them left, and in guided what all grammars share, such as masks
inside names and strings. The last column is the same texts once more. llguidance reads the
library's own text where it can; otherwise, and for xgrammar except for JSON, the grammar is printed
by ``peer_grammars``. Compiling is timed on first use and as the best of three, in milliseconds of
the process; everything else in microseconds of the calling thread. ``--plot`` draws time by place
in the text. BENCH_TOKENIZER names the folder of a tokenizer.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import llguidance
import llguidance.hf
import numpy as np
import xgrammar
from numpy.typing import NDArray
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.grammar_texts import WRITERS
from benchmarks.peer_grammars import ebnf_of, llguidance_lark_of
from guided.constraint.compiler import ConstraintCompiler
from guided.grammar.lark import lower_lark
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.mask import Mask
from guided.spec import Lark, TokenId
from guided.spec.library import read_grammar


class Matcher(Protocol):
    """A position in a text, moved in place."""

    def begin(self) -> None: ...
    def mask(self) -> None: ...
    def accept(self, token: int) -> bool: ...
    def finished(self) -> bool: ...


class _Guided:
    def __init__(self, compiler: ConstraintCompiler, words: Mask, text: str) -> None:
        self.compiled = compiler._compile(Lark(text))
        self.at = self.compiled.start()
        self.words = words

    def begin(self) -> None:
        self.at = self.compiled.start()

    def mask(self) -> None:
        self.compiled.mask(self.at.position).fill(self.words)

    def accept(self, token: int) -> bool:
        self.at = self.at.advance(TokenId(token))
        return True

    def finished(self) -> bool:
        return self.at.is_accepting


class _Llguidance:
    def __init__(self, tokenizer: Any, words: NDArray[np.int32], text: str) -> None:
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


class _Xgrammar:
    def __init__(self, compiler: Any, words: NDArray[np.int32], ebnf: str | None) -> None:
        self.compiled = (
            compiler.compile_builtin_json_grammar()
            if ebnf is None
            else compiler.compile_grammar(xgrammar.Grammar.from_ebnf(ebnf))
        )
        self.words = words[None]
        self.begin()

    def begin(self) -> None:
        self.at = xgrammar.GrammarMatcher(self.compiled)

    def mask(self) -> None:
        self.at.fill_next_token_bitmask(self.words)

    def accept(self, token: int) -> bool:
        return bool(self.at.accept_token(token))

    def finished(self) -> bool:
        return bool(self.at.is_completed())


class _Sources(NamedTuple):
    """A grammar in the form that each engine reads."""

    guided: str
    llguidance: str
    xgrammar: str | None
    """``None`` means its own grammar of JSON."""

    @classmethod
    def of(cls, name: str) -> _Sources:
        text = read_grammar(name).text
        grammar = lower_lark(text)
        # llguidance has neither look-around nor templates.
        is_plain = "(?!" not in text and "_list{" not in text
        return cls(
            text,
            text if is_plain else llguidance_lark_of(grammar),
            None if name == "json" else ebnf_of(grammar),
        )


class _Figures(NamedTuple):
    first_compile: float
    best_compile: float
    steps: list[NDArray[np.float64]]
    """For each text, the times of its tokens."""
    again: float
    """The mean when all texts come once more."""


Engines = dict[str, Callable[[_Sources], Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grammars", nargs="*", default=[*WRITERS])
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--texts", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="at most, by engine and grammar")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(os.environ["BENCH_TOKENIZER"])
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    engines = _engines(tokenizer)
    for engine in engines.values():  # what a process loads once
        warm = engine(_Sources.of("arithmetic"))
        for token in tokenizer.encode("1+(x*2)", add_special_tokens=False):
            warm.mask()
            warm.accept(token)
    print(
        f"{'grammar':18}{'engine':11}{'tokens':>7}{'compile':>9}{'best':>9}{'mean':>9}{'p50':>8}{'p99':>8}"
        f"{'max':>8}{'last/first':>11}{'warm':>8}"
    )
    gc.disable()
    drawn: dict[str, dict[str, list[NDArray[np.float64]]]] = {}
    for name in options.grammars:
        rng = random.Random(1)
        texts = [
            tokenizer.encode(WRITERS[name](rng, options.tokens), add_special_tokens=False)
            for _ in range(options.texts)
        ]
        for engine_name, engine in engines.items():
            figures = _measured(engine, _Sources.of(name), texts, options.seconds)
            drawn.setdefault(name, {})[engine_name] = figures.steps
            _print(name, engine_name, figures)
            gc.collect()
    if options.plot:
        _plot(drawn, options.plot)


def _engines(tokenizer: PreTrainedTokenizerFast) -> Engines:
    vocabulary = vocabulary_from_tokenizer(tokenizer)
    compiler = ConstraintCompiler(vocabulary)
    compiler.rehearse()
    size = len(vocabulary)
    foreign = llguidance.hf.from_tokenizer(tokenizer, n_vocab=size)
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size)
    third = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    words = np.zeros((size + 31) // 32, dtype=np.int32)
    return {
        "guided": lambda sources: _Guided(compiler, words, sources.guided),
        "llguidance": lambda sources: _Llguidance(foreign, words, sources.llguidance),
        "xgrammar": lambda sources: _Xgrammar(third, words, sources.xgrammar),
    }


def _measured(
    engine: Callable[[_Sources], Any], sources: _Sources, texts: list[list[int]], seconds: float
) -> _Figures:
    compiling: list[float] = []
    while not compiling or (len(compiling) < 3 and sum(compiling) < 5_000):
        begun = time.process_time()
        matcher = engine(sources)
        matcher.mask()
        compiling.append((time.process_time() - begun) * 1e3)
    steps, again = _walks(matcher, texts, seconds), _walks(matcher, texts, seconds)
    return _Figures(compiling[0], min(compiling), steps, float(np.concatenate(again).mean()))


def _walks(matcher: Matcher, texts: list[list[int]], seconds: float) -> list[NDArray[np.float64]]:
    """Return for each text the times of its tokens, as many as there is time for."""
    until = time.thread_time() + seconds
    return [
        np.array(steps)
        for tokens in texts
        if (
            steps := list(
                itertools.takewhile(lambda _: time.thread_time() < until, _walk(matcher, tokens))
            )
        )
    ]


def _print(name: str, engine: str, figures: _Figures) -> None:
    every = np.concatenate(figures.steps)
    last = figures.steps[-1]
    quarter = max(1, len(last) // 4)
    growth = last[-quarter:].mean() / last[:quarter].mean()
    print(
        f"{name:18}{engine:11}{len(every):7}{figures.first_compile:9.1f}{figures.best_compile:9.1f}"
        f"{every.mean():9.1f}{np.median(every):8.1f}{np.percentile(every, 99):8.1f}"
        f"{every.max():8.0f}{growth:11.2f}{figures.again:8.1f}",
        flush=True,
    )


def _walk(matcher: Matcher, tokens: list[int]) -> Iterator[float]:
    matcher.begin()
    for token in tokens:
        begun = time.thread_time()
        matcher.mask()
        taken = matcher.accept(token)
        yield (time.thread_time() - begun) * 1e6
        assert taken, token
    assert matcher.finished()


_WINDOW = 100


def _plot(drawn: dict[str, dict[str, list[NDArray[np.float64]]]], path: Path) -> None:
    """Plot the time per token, as the mean of a window, against the place in the last text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(drawn), 3.4), layout="constrained")
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axes, (name, engines) in zip(panels, drawn.items(), strict=True):
        for engine, steps in engines.items():
            last = steps[-1]
            means = last[: len(last) // _WINDOW * _WINDOW].reshape(-1, _WINDOW).mean(axis=1)
            axes.plot(np.arange(1, len(means) + 1) * _WINDOW, means, label=engine)
        axes.set(title=name, xlabel="token of the text", ylabel="µs a token", yscale="log")
        axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
