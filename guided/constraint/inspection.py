"""Measure, along texts, what a grammar costs and how much of its texts it forces."""

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
    """At each place, how many tokens may follow, counting the end."""
    mask_seconds: tuple[float, ...]
    """At each place, the time to get its mask; most masks come from a cache."""
    readings: tuple[int, ...]
    """At each place, how many states the text may be in; see ``GrammarMachine.num_parses``."""
    forced: int
    """How many tokens were the only choice, if the text is split as the tokenizer splits it."""

    @property
    def tokens(self) -> int:
        return len(self.allowed) - 1


@dataclass(frozen=True, slots=True)
class GrammarInspection:
    """The result of inspecting a grammar; times are those of the calling thread."""

    compile_seconds: float
    first_mask_seconds: float
    called_rules: int
    """Rules that are called while a text is read, counting the start rule; others are inlined."""
    states: int
    """States of the network."""
    traces: tuple[Trace, ...]

    @property
    def forced_share(self) -> float:
        """The share of forced tokens among the tokens of all texts."""
        total = sum(trace.tokens for trace in self.traces)
        return sum(trace.forced for trace in self.traces) / total if total else 0.0


def inspect_grammar(
    grammar: Lark | Ebnf | Regex | Choice,
    compiler: ConstraintCompiler,
    texts: Iterable[Sequence[TokenId]] = (),
    walks: int = 0,
) -> GrammarInspection:
    """Compile a grammar and follow texts, given as tokens, and ``walks`` random ones.

    The random ones are the same each time. Compiling takes almost no time if the compiler already
    has the grammar. Raises what ``ConstraintCompiler.compile`` raises, and TokenRejectedError for a
    text that does not begin a text of the grammar.
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
"""Returns the token to continue with, ``None`` at the end."""


def _trace(compiled: CompiledConstraint, machine: GrammarMachine, way: _Way) -> Trace:
    """Follow ``way``, which returns the next token or ``None``, and measure each mask on it.

    ``run`` is what is left of a forced run. It is used while the text takes its tokens; a new run
    is requested when it is used up or the text leaves it.

    ``allowed`` and the other lists have one entry more than there are tokens, for the end.
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
"""After this many tokens, a random text takes the shortest way to its end."""


def _at_random(compiled: CompiledConstraint, rng: random.Random) -> _Way:
    """Choose any allowed token, but follow forced runs as the tokenizer spells them.

    The result can be followed only once: it counts its tokens, and ``waiting`` contains the tokens
    that are already chosen.
    """
    ends = compiled.binding.vocabulary.end_ids
    waiting: list[TokenId] = []
    taken = 0

    def way(matcher: ConstraintMatcher) -> TokenId | None:
        """Return the next waiting token; if none waits, first choose some at ``matcher``."""
        nonlocal taken
        taken += 1
        if not waiting:
            if taken > _WALK_TOKENS:
                waiting.extend(matcher.shortest_completion())
            else:
                chosen = rng.choice(tokens_of(matcher.mask()).tolist())
                waiting.extend(matcher.forced_run(Forcing.CANONICAL) or (TokenId(chosen),))
        token = waiting.pop(0) if waiting else None
        return None if token in ends else token

    return way
