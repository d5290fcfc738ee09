"""Small random grammars, and their languages enumerated without any automaton."""

from __future__ import annotations

import itertools
import random
from functools import cache

from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Terminal,
)
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.regular.expression import literal

__all__ = [
    "LETTERS",
    "accepted_by",
    "all_texts",
    "grammar_of",
    "language",
    "machine_of",
    "mutated",
    "random_grammar",
    "random_text",
    "spelled",
]

LETTERS = "ab"
_BLANK = "_"
_NAMES = "stuvw"


def random_grammar(rng: random.Random) -> dict[str, Body]:
    """Rules over the letters, among them left-recursive, ambiguous, nullable and cyclic ones."""
    names = _NAMES[: rng.randint(1, len(_NAMES))]
    return {name: _body(rng, names, 3) for name in names}


def _body(rng: random.Random, names: str, depth: int) -> Body:
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        if rng.random() < 0.5:
            return Call(rng.choice(names))
        text = "".join(rng.choices(LETTERS, k=rng.choice([0, 1, 1, 1, 2])))
        return Terminal(literal(text)) if text else Concatenation(())
    if kind < 0.6:
        return Concatenation(
            tuple(_body(rng, names, depth - 1) for _ in range(rng.choice([2, 2, 3])))
        )
    if kind < 0.9:
        return Alternation(
            tuple(_body(rng, names, depth - 1) for _ in range(rng.choice([2, 2, 3])))
        )
    low = rng.randint(0, 2)
    return Repetition(_body(rng, names, depth - 1), low, rng.choice([None, low, low + 1]))


def grammar_of(rules: dict[str, Body], *, ignoring: bool = False) -> ContextFreeGrammar:
    """The grammar that starts with the first rule."""
    ignored = (Terminal(literal(_BLANK)),) if ignoring else ()
    return ContextFreeGrammar(rules, next(iter(rules)), ignored)


def machine_of(rules: dict[str, Body], *, ignoring: bool = False) -> GrammarMachine:
    """The recogniser of the grammar; raises UnsatisfiableError if it has no text."""
    return GrammarMachine(network_from_grammar(grammar_of(rules, ignoring=ignoring)))


@cache
def all_texts(longest: int, *, ignoring: bool = False) -> tuple[str, ...]:
    """All texts over the letters, shortest first."""
    letters = LETTERS + _BLANK if ignoring else LETTERS
    return tuple(
        "".join(text)
        for length in range(longest + 1)
        for text in itertools.product(letters, repeat=length)
    )


def language(rules: dict[str, Body], longest: int, *, ignoring: bool = False) -> set[str]:
    """The texts of the first rule up to a number of letters: a least fixed point."""
    blanks = [_BLANK * count for count in range(longest + 1)] if ignoring else [""]
    texts: dict[str, set[str]] = {name: set() for name in rules}

    def of(body: Body) -> set[str]:
        match body:
            case Call(rule):
                return texts[rule]
            case Terminal(regular):
                text = spelled(regular)
                return {blank + text for blank in blanks if len(blank + text) <= longest}
            case Concatenation(parts):
                found = {""}
                for part in parts:
                    found = joined(found, of(part))
                return found
            case Alternation(options):
                return set().union(*(of(option) for option in options))
            case Repetition(item, low, high):
                one, found, now = of(item), set[str](), {""}
                for count in range(longest + low + 1 if high is None else high + 1):
                    if count >= low:
                        found |= now
                    now = joined(now, one)
                return found
            case _:
                raise AssertionError(f"no random grammar has {body}")

    def joined(left: set[str], right: set[str]) -> set[str]:
        return {a + b for a in left for b in right if len(a) + len(b) <= longest}

    grew = True
    while grew:
        grew = False
        for name, body in rules.items():
            found = of(body)
            if found != texts[name]:
                texts[name], grew = found, True
    return joined(texts[next(iter(rules))], set(blanks))


def spelled(regular: object) -> str:
    """The text of a literal."""
    parts = getattr(regular, "parts")  # noqa: B009 - whatever ``literal`` makes
    return "".join(chr(part.chars.ranges[0][0]) for part in parts)


def accepted_by(machine: GrammarMachine, text: str) -> bool:
    """Whether the whole text is in the machine's language."""
    state = machine.advance(machine.start, text.encode())
    return state is not None and machine.is_accepting(state)


def random_text(machine: GrammarMachine, rng: random.Random, steps: int) -> str:
    """A text of random bytes, completed by a shortest end."""
    state, text = machine.start, bytearray()
    for _ in range(steps):
        reached = [(byte, machine.step(state, byte)) for byte in _likely(rng)]
        choices = [(byte, behind) for byte, behind in reached if behind is not None]
        if not choices:
            choices = [
                (byte, behind)
                for byte in range(256)
                if (behind := machine.step(state, byte)) is not None
            ]
        if not choices:
            break
        byte, state = rng.choice(choices)
        text.append(byte)
    whole: bytes = bytes(text) + machine.shortest_completion(state)
    return whole.decode()


def _likely(rng: random.Random) -> list[int]:
    """Some bytes that most grammars read, punctuation more than letters."""
    printable = range(32, 127)
    signs = [byte for byte in printable if not chr(byte).isalnum()]
    return rng.sample(signs, 12) + rng.sample(printable, 4)


def mutated(text: str, rng: random.Random) -> str:
    """The text with a character removed, doubled or changed, or with two exchanged."""
    at = rng.randrange(len(text) + 1)
    before, here, behind = text[:at], text[at : at + 1], text[at + 1 :]
    other = rng.choice([*text, *' (1a".,'])
    mutants = (
        before + behind,
        before + here + here + behind,
        before + other + behind,
        before + other + here + behind,
        before + behind[:1] + here + behind[1:],
    )
    return mutants[rng.randrange(len(mutants))]
