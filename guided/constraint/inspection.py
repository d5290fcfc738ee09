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
    """Measurements along the tokens of one text."""

    allowed: tuple[int, ...]
    """At each place, how many tokens may follow, counting the end."""
    mask_seconds: tuple[float, ...]
    """At each place, the time to get its mask; most masks come from a cache."""
    num_states_at_once: tuple[int, ...]
    """At each place, how many states the text may be in."""
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
    """Compile a grammar and measure along texts, given as tokens, and along ``walks`` random ones.

    The random ones are the same each time. Compiling takes almost no time if the compiler already
    has the grammar. Raises what ``ConstraintCompiler.compile`` raises, and TokenRejectedError for a
    text that is no prefix of a text of the grammar.
    """
    started_at = time.thread_time()
    compiled = compiler.compile(grammar)
    compile_seconds = time.thread_time() - started_at
    started_at = time.thread_time()
    compiled.start().mask()
    first_mask_seconds = time.thread_time() - started_at
    machine = compiled.machine
    assert isinstance(machine, GrammarMachine), "a grammar has a machine of grammars"
    sources = [_read_tokens(tokens) for tokens in texts]
    sources += [_choose_randomly(compiled, random.Random(seed)) for seed in range(walks)]  # noqa: S311 - an example, the same each time
    return GrammarInspection(
        compile_seconds,
        first_mask_seconds,
        len(machine.network.starts),
        len(machine.network),
        tuple(_trace(compiled, machine, source) for source in sources),
    )


_TokenSource: TypeAlias = Callable[[ConstraintMatcher], TokenId | None]
"""Returns the next token of a text, ``None`` at its end."""


def _trace(
    compiled: CompiledConstraint, machine: GrammarMachine, next_token: _TokenSource
) -> Trace:
    """Measure each mask along the tokens that ``next_token`` returns.

    ``run`` is the rest of a forced run. It is used while the text takes its tokens; a new run is
    requested when it is used up or the text leaves it. ``allowed`` and the other lists have one
    entry more than there are tokens, for the end.
    """
    allowed: list[int] = []
    seconds: list[float] = []
    num_states_at_once: list[int] = []
    forced, run = 0, tuple[TokenId, ...]()
    matcher = compiled.start()
    while True:
        started_at = time.thread_time()
        mask = matcher.mask()
        seconds.append(time.thread_time() - started_at)
        allowed.append(int(np.bitwise_count(mask.view(np.uint32)).sum()))
        num_states_at_once.append(machine.num_states_at_once(matcher.state))
        token = next_token(matcher)
        if token is None:
            return Trace(tuple(allowed), tuple(seconds), tuple(num_states_at_once), forced)
        run = run or matcher.forced_run(Forcing.CANONICAL)
        is_forced = run[:1] == (token,)
        forced += is_forced
        run = run[1:] if is_forced else ()
        matcher = matcher.advance(token)


def _read_tokens(tokens: Sequence[TokenId]) -> _TokenSource:
    remaining = iter(tokens)
    return lambda _: next(remaining, None)


_WALK_TOKENS: Final = 100
"""The number of tokens after which a random text takes its shortest completion."""


def _choose_randomly(compiled: CompiledConstraint, rng: random.Random) -> _TokenSource:
    """Return a source of random tokens, which follows forced runs as the tokenizer spells them.

    It can be used only once: it counts its tokens, and ``pending`` has the tokens chosen in
    advance.
    """
    ends = compiled.binding.vocabulary.end_ids
    pending: list[TokenId] = []
    num_tokens = 0

    def next_token(matcher: ConstraintMatcher) -> TokenId | None:
        """Return the next pending token; if there is none, first choose some at ``matcher``."""
        nonlocal num_tokens
        num_tokens += 1
        if not pending:
            if num_tokens > _WALK_TOKENS:
                pending.extend(matcher.shortest_completion())
            else:
                pending.extend(
                    matcher.forced_run(Forcing.CANONICAL)
                    or (TokenId(rng.choice(tokens_of(matcher.mask()).tolist())),)
                )
        token = pending.pop(0) if pending else None
        return None if token in ends else token

    return next_token
