"""Compares masks of many positions at once with the batch calls of xgrammar and llguidance.

    python batch_masks.py TOKENIZER

`TOKENIZER` is a folder with a fast tokenizer. Needs torch, transformers, xgrammar and llguidance.

Every engine has a matcher for each sequence of a batch, with six schemas in turn, some tokens into
a document of its own. One call fills all rows; the median of many rounds is taken. *In use*: the
same positions again. *Met first*: a round on the positions one token further, once along each
document, with matchers (and for guided a compiler) that have met none of them. A tree has 32 nodes
below a position in use, 8 paths of 4 tokens, and is filled by each engine's own means: by guided in
one call, by llguidance as 8 chains, by xgrammar by a walk that accepts and rolls back. Rows of all
engines are compared where they enforce the same documents; threads are each engine's default, and
1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from guided import JsonOptions
from guided.compiler import Compiler, Matcher, fill_bitmasks, fill_tree

_BATCHES = (1, 64, 512)
_ROUNDS = 40
_WAYS, _DEPTH = 8, 4


def _schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_SCHEMAS: Sequence[tuple[dict[str, Any], dict[str, Any]]] = (
    (_schema(name=_TEXT, age={"type": "integer"}), {"name": "Ada Lovelace", "age": 36}),
    (
        _schema(tags={"type": "array", "items": _TEXT}, open={"type": "boolean"}),
        {"tags": ["red bicycles", "tall ships", "a third"], "open": True},
    ),
    (
        _schema(kind={"enum": ["invoice", "receipt", "reminder"]}, total={"type": "number"}),
        {"kind": "reminder", "total": 1250.75},
    ),
    (
        _schema(place=_schema(city=_TEXT, street=_TEXT), code={"type": "integer"}),
        {"place": {"city": "Heidelberg", "street": "Hauptstrasse 7"}, "code": 69117},
    ),
    (
        _schema(rows={"type": "array", "items": _schema(x={"type": "integer"}, y=_TEXT)}),
        {"rows": [{"x": 1, "y": "one of them"}, {"x": 22, "y": "another"}]},
    ),
    (
        _schema(note=_TEXT, level={"enum": ["low", "high"]}, done={"type": "boolean"}),
        {"note": "The quick brown fox jumps over the lazy dog.", "level": "low", "done": False},
    ),
)
"""Schemas, each with a document, which is written compactly."""


def _dumped(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


class _Guided:
    name = "guided"
    threads = (1,)

    def __init__(self, tokenizer: Any) -> None:
        self._compiler = Compiler(tokenizer)
        options = JsonOptions(whitespace=0, spelling="any", max_string_length=None)
        self._compiled = [
            self._compiler.compile(schema, json_options=options) for schema, _ in _SCHEMAS
        ]
        self.words = self._compiler.bitmask(1).shape[1]

    def rehearse(self) -> None:
        """Load machine code, which all compilers of a process share."""
        self._compiler.rehearse()

    def fresh(self, tokenizer: Any) -> _Guided:
        return _Guided(tokenizer)

    def matcher(self, schema: int) -> Matcher:
        return self._compiled[schema].matcher()

    def accept(self, matcher: Matcher, token: int) -> None:
        assert matcher.accept([token])

    def fill(self, matchers: Sequence[Matcher], bitmask: Any, threads: int) -> Callable[[], object]:  # noqa: ARG002 - one
        return lambda: fill_bitmasks(matchers, bitmask)

    def fill_tree(
        self, matcher: Matcher, parents: list[int], tokens: list[int], bitmask: Any
    ) -> Callable[[], object]:
        return lambda: fill_tree(matcher, parents, tokens, bitmask)


class _Xgrammar:
    name = "xgrammar"
    threads = (1, 2)

    def __init__(self, tokenizer: Any, size: int) -> None:
        import xgrammar

        self._of = xgrammar
        self._size = size
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=size)
        compiler = xgrammar.GrammarCompiler(info)
        self._compiled = [
            compiler.compile_json_schema(
                json.dumps(schema), any_whitespace=False, separators=(",", ":")
            )
            for schema, _ in _SCHEMAS
        ]

    def fresh(self, tokenizer: Any) -> _Xgrammar:
        return _Xgrammar(tokenizer, self._size)

    def matcher(self, schema: int) -> Any:
        return self._of.GrammarMatcher(self._compiled[schema])

    def accept(self, matcher: Any, token: int) -> None:
        assert matcher.accept_token(token)

    def fill(self, matchers: Sequence[Any], bitmask: Any, threads: int) -> Callable[[], object]:
        batch = self._of.BatchGrammarMatcher(max_threads=threads)
        rows, listed = [*range(len(matchers))], [*matchers]
        return lambda: batch.batch_fill_next_token_bitmask(listed, bitmask, rows)

    def fill_tree(
        self, matcher: Any, parents: list[int], tokens: list[int], bitmask: Any
    ) -> Callable[[], object]:
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(parents):
            below.setdefault(parent, []).append(node)

        def walk(node: int) -> None:
            matcher.fill_next_token_bitmask(bitmask, node)
            for child in below.get(node, ()):
                if matcher.accept_token(tokens[child]):
                    walk(child)
                    matcher.rollback(1)

        return lambda: walk(0)


class _Llguidance:
    name = "llguidance"
    threads = (1, 2)

    def __init__(self, tokenizer: Any, size: int) -> None:
        import llguidance
        import llguidance.hf
        import llguidance.numpy

        self._of = llguidance
        self._size = size
        self._tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=size)
        options = {"whitespace_flexible": False}
        self._grammars = [
            llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=options)
            for schema, _ in _SCHEMAS
        ]

    def fresh(self, tokenizer: Any) -> _Llguidance:
        return _Llguidance(tokenizer, self._size)

    def matcher(self, schema: int) -> Any:
        made = self._of.LLMatcher(self._tokens, self._grammars[schema])
        assert not made.is_error(), made.get_error()
        return made

    def accept(self, matcher: Any, token: int) -> None:
        assert matcher.consume_token(token)

    def fill(self, matchers: Sequence[Any], bitmask: Any, threads: int) -> Callable[[], object]:
        executor = self._of.LLExecutor(num_threads=threads)
        placed = [(matcher, row) for row, matcher in enumerate(matchers)]
        fill = self._of.numpy.fill_next_token_bitmask_par
        return lambda: fill(executor, placed, bitmask)

    def fill_tree(
        self, matcher: Any, parents: list[int], tokens: list[int], bitmask: Any
    ) -> Callable[[], object]:
        executor = self._of.LLExecutor(num_threads=1)
        chains = _chains(parents, tokens)
        forks = [matcher.deep_copy() for _ in chains]
        placed = [
            (fork, way * (_DEPTH + 1), chain)
            for way, (fork, chain) in enumerate(zip(forks, chains, strict=True))
        ]
        fill = self._of.numpy.fill_next_token_bitmask_par_with_draft_tokens
        return lambda: fill(executor, placed, bitmask)


def _chains(parents: list[int], tokens: list[int]) -> list[list[int]]:
    """Return the tokens of each path from the root to a leaf."""
    leaves = {*range(len(parents))} - {*parents}
    found = []
    for node in sorted(leaves):
        way: list[int] = []
        while node:
            way.append(tokens[node])
            node = parents[node]
        found.append(way[::-1])
    return found


def _median(call: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Return the median microseconds of a call."""
    call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def _placed(engine: Any, texts: Sequence[list[int]], batch: int) -> tuple[list[Any], list[int]]:
    """Return the matchers of a batch, and how many tokens of its document each has taken."""
    matchers, lengths = [], []
    for row in range(batch):
        schema = row % len(texts)
        matcher = engine.matcher(schema)
        length = 1 + (row // len(texts)) % (len(texts[schema]) - 1)
        for token in texts[schema][:length]:
            engine.accept(matcher, token)
        matchers.append(matcher)
        lengths.append(length)
    return matchers, lengths


def _met_first(
    engine: Any, texts: Sequence[list[int]], batch: int, threads: int
) -> Iterator[float]:
    """Yield the microseconds of each call along the documents, with nothing met before."""
    matchers = [engine.matcher(row % len(texts)) for row in range(batch)]
    bitmask = np.zeros((batch, engine.words), dtype=np.int32)
    for place in range(min(map(len, texts))):
        call = engine.fill(matchers, bitmask, threads)
        began = time.perf_counter()
        call()
        yield (time.perf_counter() - began) * 1e6
        for row, matcher in enumerate(matchers):
            engine.accept(matcher, texts[row % len(texts)][place])


def _tree(engine: _Guided, matcher: Matcher) -> tuple[list[int], list[int]]:
    """Return a tree of 32 nodes including its root, all of them allowed."""
    parents, tokens = [-1], [0]
    bitmask = np.zeros((1, engine.words), dtype=np.int32)
    draw = np.random.default_rng(1)
    for _ in range(_WAYS):
        fork, parent = matcher.fork(), 0
        for _ in range(_DEPTH):
            fork.fill_bitmask(bitmask)
            bits = np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")
            token = int(draw.choice(np.flatnonzero(bits)))
            assert fork.accept([token])
            parents.append(parent)
            tokens.append(token)
            parent = len(parents) - 1
    return parents[:32], tokens[:32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tokenizer", type=Path)
    tokenizer = AutoTokenizer.from_pretrained(parser.parse_args().tokenizer)
    texts = [
        tokenizer.encode(_dumped(document), add_special_tokens=False) for _, document in _SCHEMAS
    ]
    ours = _Guided(tokenizer)
    ours.rehearse()
    size = len(tokenizer)
    engines = [ours, _Xgrammar(tokenizer, size), _Llguidance(tokenizer, size)]
    for engine in engines:
        engine.words = ours.words  # type: ignore[union-attr]
    print(f"{size} tokens, {os.cpu_count()} cores; microseconds a call")
    print("engine threads batch in_use met_first_mean met_first_max")
    for batch in _BATCHES:
        seen = []
        for engine in engines:
            for threads in engine.threads:
                matchers, _ = _placed(engine, texts, batch)
                bitmask = np.zeros((batch, ours.words), dtype=np.int32)
                used = _median(engine.fill(matchers, bitmask, threads))
                fresh: Any = engine.fresh(tokenizer)
                fresh.words = ours.words
                first = [*_met_first(fresh, texts, batch, threads)]
                mean, worst = statistics.mean(first), max(first)
                print(engine.name, threads, batch, f"{used:.1f} {mean:.1f} {worst:.1f}", flush=True)
            seen.append(bitmask)
        same = [sum((row == other).all() for row, other in zip(seen[0], others, strict=True))
                for others in seen[1:]]  # fmt: skip
        print(f"  rows equal to ours: xgrammar {same[0]}, llguidance {same[1]} of {batch}")
    matchers, _ = _placed(ours, texts, 6)
    trees = [_tree(ours, matcher) for matcher in matchers]
    for engine in engines:
        placed, _ = _placed(engine, texts, 6)
        bitmask = np.zeros((_WAYS * (_DEPTH + 1) + 1, ours.words), dtype=np.int32)
        times = [
            _median(engine.fill_tree(matcher, *tree, bitmask))
            for matcher, tree in zip(placed, trees, strict=True)
        ]
        print(engine.name, 1, "tree of 32", f"{statistics.mean(times):.1f}")


if __name__ == "__main__":
    main()
