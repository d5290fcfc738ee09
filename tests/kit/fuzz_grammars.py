"""Random grammars, compared with two Earley parsers at every prefix of a text."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lark import Lark
from lark.exceptions import LarkError

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Terminal,
)
from guided.grammar.ebnf import lower_ebnf
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.runtime.work_budget import limited_work
from tests.kit.campaign import Fault, Subject, smaller_texts
from tests.kit.earley import COMPLETE, DEAD, OPEN, Earley
from tests.kit.grammars import mutated, random_grammar, random_text, spelled
from tests.kit.written_ebnf import written
from tests.kit.written_lark import has_cycle, written_lark

__all__ = ["GrammarCase", "Grammars", "lark_verdicts"]

_PEER_SECONDS = 5.0
"""Processor time of a peer for one text."""
_WORK = 20_000_000
_LONGEST = 9
_LETTERS = "abé_"
_PATTERNS: Final = (
    *("a+", "b*a", "[ab]b?", "(?:ab|b)+", "é|ab", "(?:aé?){2,3}", "[^ab_]", "a(?:ba)*", "é.a"),
    *(r"\w", "[aé]+b", "_?a", "(?:[ab]{2})+", ".é"),
)
_NOT_FOR_LARK: Final = "(?:a|ab)(?:c|bcd)?"
"""Lark knows only the text of a terminal that ``re`` finds first, and its beginnings."""
_TEST = '''"""{doc}."""

from __future__ import annotations

from tests.kit.fuzz_grammars import lark_verdicts

_GRAMMAR = {grammar}


def test_every_prefix_is_what_it_should_be() -> None:
    assert lark_verdicts(_GRAMMAR, {text}) == {expected}
'''


@dataclass(frozen=True)
class GrammarCase:
    """Rules whose terminals are names of patterns, or literal texts."""

    rules: Mapping[str, Body]
    texts: tuple[str, ...]
    patterns: Mapping[str, str] = field(default_factory=dict)
    ignored: str = ""
    ebnf: int | None = None
    """The seed of the spelling, if it is written as EBNF; only without patterns."""

    def pattern(self, terminal: Terminal) -> str:
        text = spelled(terminal.regular)
        return self.patterns.get(text, text)

    @property
    def lark(self) -> str:
        return written_lark(
            self.rules,
            lambda terminal: (
                f"/{self.pattern(terminal)}/"
                if spelled(terminal.regular) in self.patterns
                else f'"{self.pattern(terminal)}"'
            ),
            self.ignored,
        )

    def lowered(self) -> ContextFreeGrammar:
        if self.ebnf is None:
            return lower_lark(self.lark)
        return lower_ebnf(written(self.rules, random.Random(self.ebnf)), next(iter(self.rules)))


class Grammars(Subject[GrammarCase]):
    """A prefix is read if a text begins so, and accepted if it is one."""

    name = "grammars"

    def draw(self, rng: random.Random) -> GrammarCase:
        rules = random_grammar(rng)
        case = GrammarCase(rules, ())
        if rng.random() < 0.2:
            case = replace(case, ebnf=rng.randrange(10**6))
        elif rng.random() < 0.7:
            spelt = sorted({spelled(each.regular) for b in rules.values() for each in _words(b)})
            chosen = [text for text in spelt if rng.random() < 0.7]
            patterns = {text: rng.choice((*_PATTERNS, _NOT_FOR_LARK)) for text in chosen}
            case = replace(case, patterns=patterns, ignored=rng.choice(["", "_", "_+", "é_|_"]))
        texts = ["".join(rng.choices(_LETTERS, k=rng.randint(1, 6))) for _ in range(3)]
        return replace(case, texts=tuple(texts))

    def judge(self, case: GrammarCase) -> Fault | None:
        try:
            with limited_work(_WORK):
                machine = _machine(case.lowered())
                texts = [*case.texts, *_written_by(machine, case)]
                found = self._differing(case, machine, texts)
        except LimitExceededError:
            return None
        if found is not None:
            text, expected, verdicts = found
            return Fault("wrong prefix", f"{text!r} is {expected} and not {verdicts}")
        return self._against_lark(case, texts)

    def _differing(
        self, case: GrammarCase, machine: GrammarMachine | None, texts: list[str]
    ) -> tuple[str, str, str] | None:
        """The first text that is read wrongly, the right verdicts on its prefixes, and ours."""
        earley = Earley(case.rules, case.pattern, case.ignored)
        for text in texts:
            expected, verdicts = earley.verdicts(text), _verdicts(machine, text)
            if expected != verdicts:
                return text, expected, verdicts
        return None

    def _against_lark(self, case: GrammarCase, texts: list[str]) -> Fault | None:
        if case.ignored or _NOT_FOR_LARK in case.patterns.values() or has_cycle(case.rules):
            return None
        try:
            lark = Lark(case.lark, parser="earley", lexer="dynamic_complete")
        except LarkError:  # Lark refuses some grammars, as those with rules without a text
            return None
        earley = Earley(case.rules, case.pattern)
        for text in filter(None, texts):
            is_text = earley.verdicts(text)[-1] == COMPLETE
            begun = time.process_time()
            is_parsed = _parses(lark, text)
            self.peer_seconds += time.process_time() - begun
            if is_parsed is None:
                return None
            if is_parsed != is_text:
                return Fault("Lark differs", f"{text!r} is a text: {is_text}")
        return None

    def smaller(self, case: GrammarCase) -> Iterator[GrammarCase]:
        for text in case.texts:
            if len(case.texts) > 1:
                yield replace(case, texts=(text,))
        for name in list(case.rules)[1:]:
            if not any(name in _calls(body) for body in case.rules.values()):
                yield replace(case, rules={n: b for n, b in case.rules.items() if n != name})
        for name, body in case.rules.items():
            for less in _smaller(body):
                yield replace(case, rules={**case.rules, name: less})
        for text in case.patterns:
            kept = {each: pattern for each, pattern in case.patterns.items() if each != text}
            yield replace(case, patterns=kept)
        if case.ignored:
            yield replace(case, ignored="")
        if len(case.texts) == 1:
            for text in smaller_texts(case.texts[0]):
                yield replace(case, texts=(text,))

    def as_test(self, case: GrammarCase, fault: Fault) -> str:
        machine = _machine(case.lowered())
        texts = [*case.texts, *_written_by(machine, case)]
        text, expected, _ = self._differing(case, machine, texts) or (texts[0], "", "")
        return _TEST.format(
            doc=fault.kind, grammar=f'"""{case.lark}"""', text=repr(text), expected=repr(expected)
        )


def lark_verdicts(grammar: str, text: str) -> str:
    """The verdicts of a Lark grammar's recogniser on each prefix, as in ``Earley.verdicts``."""
    return _verdicts(_machine(lower_lark(grammar)), text)


def _machine(grammar: ContextFreeGrammar) -> GrammarMachine | None:
    """The recogniser; ``None`` if the grammar has no text."""
    try:
        return GrammarMachine(network_from_grammar(grammar))
    except UnsatisfiableError:
        return None


def _verdicts(machine: GrammarMachine | None, text: str) -> str:
    signs = []
    state = None if machine is None else machine.start
    for at in range(len(text) + 1):
        if machine is not None and state is not None and at:
            state = machine.advance(state, text[at - 1].encode())
        if machine is None or state is None:
            signs.append(DEAD)
            continue
        signs.append(COMPLETE if machine.is_accepting(state) else OPEN)
        ended = machine.advance(state, machine.shortest_completion(state))
        assert ended is not None
        assert machine.is_accepting(ended)
    return "".join(signs)


def _written_by(machine: GrammarMachine | None, case: GrammarCase) -> list[str]:
    """Texts that the machine writes itself, and some near them."""
    if machine is None:
        return []
    rng = random.Random(case.lark)
    texts = [random_text(machine, rng, rng.randint(0, 4)) for _ in range(2)]
    texts += [mutated(text, rng) for text in texts if text]
    return [text for text in texts if len(text) <= _LONGEST]


class _TooSlowError(Exception):
    """Lark takes too long: its trees of an ambiguous text may be very many."""


def _parses(lark: Lark, text: str) -> bool | None:
    """Whether Lark accepts a text; ``None`` if that takes longer than ``_PEER_SECONDS``."""
    before = signal.signal(signal.SIGVTALRM, _raise_too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PEER_SECONDS)
    try:
        lark.parse(text)
    except LarkError:
        return False
    except _TooSlowError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return True


def _raise_too_slow(*_: object) -> None:
    raise _TooSlowError


def _words(body: Body) -> Iterator[Terminal]:
    if isinstance(body, Terminal):
        yield body
    for part in _parts(body):
        yield from _words(part)


def _calls(body: Body) -> set[str]:
    if isinstance(body, Call):
        return {body.rule}
    return set().union(*map(_calls, _parts(body)))


def _parts(body: Body) -> tuple[Body, ...]:
    match body:
        case Concatenation(parts) | Alternation(parts):
            return parts
        case Repetition(item):
            return (item,)
    return ()


def _smaller(body: Body) -> Iterator[Body]:
    """Bodies that are a part of this one, or are smaller in one place."""
    nothing = Concatenation(())
    if body == nothing:
        return
    yield nothing
    yield from _parts(body)
    match body:
        case Concatenation(parts):
            for at, part in enumerate(parts):
                yield Concatenation((*parts[:at], *parts[at + 1 :]))
                for less in _smaller(part):
                    yield Concatenation((*parts[:at], less, *parts[at + 1 :]))
        case Alternation(options):
            for at, option in enumerate(options):
                if len(options) > 1:
                    yield Alternation((*options[:at], *options[at + 1 :]))
                for less in _smaller(option):
                    yield Alternation((*options[:at], less, *options[at + 1 :]))
        case Repetition(item, low, high):
            for less in _smaller(item):
                yield Repetition(less, low, high)
