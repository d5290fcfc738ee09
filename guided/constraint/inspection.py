"""What a grammar costs, and how much of its texts it writes by itself, measured along texts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from guided.constraint.compiler import ConstraintCompiler
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.masks.compiled import CompiledConstraint, ConstraintMatcher
from guided.masks.mask import tokens_of
from guided.spec import Choice, Ebnf, Forcing, Lark, Regex, TokenId

__all__ = ["GrammarInspection", "Trace", "inspect_grammar"]


@dataclass(frozen=True, slots=True)
class Trace:
    """What was measured along the tokens of one text."""

    allowed: tuple[int, ...]
    """At each place how many tokens might follow, the end among them."""
    mask_seconds: tuple[float, ...]
    """At each place the time of its mask, most of them found in a cache."""
    readings: tuple[int, ...]
    """At each place how many states the text may be in, see ``GrammarMachine.num_parses``."""
    forced: int
    """Tokens that nothing else could have stood for, as the tokenizer spells them."""

    @property
    def tokens(self) -> int:
        return len(self.allowed) - 1


@dataclass(frozen=True, slots=True)
class GrammarInspection:
    """The outcome of looking at a grammar; times are those of the calling thread."""

    compile_seconds: float
    first_mask_seconds: float
    called_rules: int
    """Rules that are called while a text is read, the whole among them; others are taken in."""
    states: int
    """Of the network."""
    traces: tuple[Trace, ...]

    @property
    def forced_share(self) -> float:
        """Of the tokens of all texts."""
        total = sum(trace.tokens for trace in self.traces)
        return sum(trace.forced for trace in self.traces) / total if total else 0.0


def inspect_grammar(
    grammar: Lark | Ebnf | Regex | Choice,
    compiler: ConstraintCompiler,
    texts: Iterable[Sequence[TokenId]] = (),
    walks: int = 0,
) -> GrammarInspection:
    """Compile a grammar and follow texts, given as tokens, and ``walks`` random ones.

    The random ones are the same each time. Compiling takes next to no time where the compiler has
    the grammar already. Raises what ``ConstraintCompiler.compile`` does, and TokenRejectedError for
    a text that does not begin one of the grammar.
    """
    begun = time.thread_time()
    compiled = compiler.compile(grammar)
    compile_seconds = time.thread_time() - begun
    begun = time.thread_time()
    compiled.start().mask()
    first_mask_seconds = time.thread_time() - begun
    machine = compiled.machine
    assert isinstance(machine, GrammarMachine), "a grammar has a machine of grammars"
    ways = [_along(tokens) for tokens in texts]
    ways += [_at_random(compiled, random.Random(seed)) for seed in range(walks)]  # noqa: S311 - an example, the same each time
    return GrammarInspection(
        compile_seconds,
        first_mask_seconds,
        len(machine.network.starts),
        len(machine.network),
        tuple(_trace(compiled, machine, way) for way in ways),
    )


_Way: TypeAlias = Callable[[ConstraintMatcher], TokenId | None]
"""The token to go on with, ``None`` at the end."""


def _trace(compiled: CompiledConstraint, machine: GrammarMachine, way: _Way) -> Trace:
    """Follow ``way``, which gives the next token or ``None``, and measure each mask on it.

    ``run`` is what is left of a forced run: it goes on while the text takes its tokens, and a new
    one is asked for when it is used up or the text leaves it.

    ``allowed`` and the other lists have one place more than there are tokens, for the end.
    """
    allowed: list[int] = []
    seconds: list[float] = []
    readings: list[int] = []
    forced, run = 0, tuple[TokenId, ...]()
    matcher = compiled.start()
    while True:
        begun = time.thread_time()
        mask = matcher.mask()
        seconds.append(time.thread_time() - begun)
        allowed.append(int(np.bitwise_count(mask.view(np.uint32)).sum()))
        readings.append(machine.num_parses(matcher.state))
        token = way(matcher)
        if token is None:
            return Trace(tuple(allowed), tuple(seconds), tuple(readings), forced)
        run = run or matcher.forced_run(Forcing.CANONICAL)
        is_forced = run[:1] == (token,)
        forced += is_forced
        run = run[1:] if is_forced else ()
        matcher = matcher.advance(token)


def _along(tokens: Sequence[TokenId]) -> _Way:
    left = iter(tokens)
    return lambda _: next(left, None)


_WALK_TOKENS: Final = 100
"""Tokens after which a random text takes the shortest way to its end."""


def _at_random(compiled: CompiledConstraint, rng: random.Random) -> _Way:
    """Any token that is allowed, but forced runs as the tokenizer spells them.

    To be followed once: it counts its tokens, and ``waiting`` has those that are chosen already.
    """
    ends = compiled.binding.vocabulary.end_ids
    waiting: list[TokenId] = []
    taken = 0

    def way(matcher: ConstraintMatcher) -> TokenId | None:
        """The next token that waits; where none does, some are chosen at ``matcher`` first."""
        nonlocal taken
        taken += 1
        if not waiting:
            if taken > _WALK_TOKENS:
                waiting.extend(matcher.shortest_end())
            else:
                chosen = rng.choice(tokens_of(matcher.mask()).tolist())
                waiting.extend(matcher.forced_run(Forcing.CANONICAL) or (TokenId(chosen),))
        token = waiting.pop(0) if waiting else None
        return None if token in ends else token

    return way
