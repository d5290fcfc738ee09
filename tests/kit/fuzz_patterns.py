"""Random patterns, compared with the matchers of their own dialects."""

from __future__ import annotations

import random
import re
import signal
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import regex

from guided.errors import (
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.grammar.one_terminal import lower_regex
from guided.regular.dfa import dfa_from_regular
from guided.regular.patterns import parse_regex
from guided.runtime.work_budget import limited_work
from guided.spec import Regex, RegexDialect
from tests.kit.campaign import FAULT_TEST, Fault, Subject, smaller_texts
from tests.kit.grammars import accepted_by, random_text
from tests.kit.node import Node, has_node
from tests.kit.patterns import LETTERS, random_pattern

__all__ = ["EcmaPatterns", "PatternCase", "PythonPatterns"]

_WORK = 20_000_000
_WITNESSES = 3
_SECONDS = 1.0


@dataclass(frozen=True)
class PatternCase:
    """A pattern, the texts that it is tried on, and flags for all of it."""

    pattern: str
    texts: tuple[str, ...]
    flags: str = ""


class _Patterns(Subject[PatternCase]):
    """Patterns of one dialect."""

    dialect: RegexDialect

    def draw(self, rng: random.Random) -> PatternCase:
        pattern, near = random_pattern(rng, self.dialect)
        texts = ["", *near, *(_changed(text, rng) for text in near)]
        texts += ["".join(rng.choices(LETTERS, k=rng.randint(1, 5))) for _ in range(4)]
        flags = "" if self.dialect is RegexDialect.PYTHON else rng.choice(["", "", "i", "s", "im"])
        return PatternCase(pattern, tuple(dict.fromkeys(texts)), flags)

    def judge(self, case: PatternCase) -> Fault | None:
        try:
            with limited_work(_WORK):
                return self.compared(case)
        except LimitExceededError:
            return None
        except UnsupportedFeatureError as error:
            # The only construct in these patterns that may be refused.
            return None if "'$' inside" in str(error) else Fault("refused", str(error))

    @abstractmethod
    def compared(self, case: PatternCase) -> Fault | None:
        """The fault of a case, if any; the front end's errors on valid patterns are passed on."""

    def smaller(self, case: PatternCase) -> Iterator[PatternCase]:
        for text in case.texts:
            if len(case.texts) > 1:
                yield replace(case, texts=(text,))
        if case.flags:
            yield replace(case, flags="")
        for pattern in smaller_texts(case.pattern):
            yield replace(case, pattern=pattern)
        if len(case.texts) == 1:
            for text in smaller_texts(case.texts[0]):
                yield replace(case, texts=(text,))

    def as_test(self, case: PatternCase, fault: Fault) -> str:
        return FAULT_TEST.format(
            doc=fault.kind,
            imports=f"from tests.kit.fuzz_patterns import PatternCase, {type(self).__name__}",
            subject=f"{type(self).__name__}()",
            case=repr(case),
        )


class PythonPatterns(_Patterns):
    """What ``re.fullmatch`` matches is accepted, and nothing else; ``regex`` is a second judge.

    Texts with digits of other scripts may be left out, as ``\\d`` leaves them out.
    """

    name = "patterns"
    dialect = RegexDialect.PYTHON

    def compared(self, case: PatternCase) -> Fault | None:
        with warnings.catch_warnings():
            # Python warns of patterns whose meaning may change one day.
            warnings.simplefilter("ignore", FutureWarning)
            try:
                compiled = re.compile(case.pattern)
            except re.error as error:
                return _not_refused(Regex(case.pattern), str(error))
            machine = _machine(Regex(case.pattern))
        texts = [*case.texts, *_witnesses(machine, case.pattern)]
        for text in texts:
            expected = _by_re(compiled, text)
            if expected is None:
                return None
            accepted = machine is not None and accepted_by(machine, text)
            if expected and any(c.isdecimal() and not c.isascii() for c in text):
                continue
            if accepted != expected and _by_regex(case.pattern, text) in (expected, None):
                return _wrong(accepted, text)
        return None


class EcmaPatterns(_Patterns):
    """Patterns are found in a text as node finds them, and match a whole text as in node."""

    name = "ecma-patterns"
    dialect = RegexDialect.ECMA

    def lacks(self) -> str | None:
        return None if has_node() else "there is no node to ask"

    @cached_property
    def _node(self) -> Node:
        return Node()

    @cached_property
    def _has_modifiers(self) -> bool:
        return self._node.found("(?i:a)", "u", []) is not None

    def compared(self, case: PatternCase) -> Fault | None:
        flags = case.flags + "u"
        ours = f"(?{case.flags}){case.pattern}" if case.flags else case.pattern
        constraint = Regex(ours, RegexDialect.ECMA)
        if not self._has_modifiers and re.search(r"\(\?-?[ims]", case.pattern):
            return None
        found = self._node.found(case.pattern, flags, case.texts)
        if found is None:
            return None  # extensions of the standard are not judged
        machine = _machine(constraint)
        texts = [*case.texts, *_witnesses(machine, case.pattern)]
        # The ends must not depend on flags.
        whole = self._node.found(rf"(?<![^])(?:{case.pattern})(?![^])", flags, texts)
        if whole is None:
            return None
        for text, expected in zip(texts, whole, strict=True):
            accepted = machine is not None and accepted_by(machine, text)
            if accepted != expected:
                return _wrong(accepted, text)
        dfa = dfa_from_regular(parse_regex(ours), search=True)
        for text, expected in zip(case.texts, found, strict=True):
            if dfa.accepts(text) != expected:
                return _wrong(not expected, text, "searching ")
        return None


def _machine(constraint: Regex) -> GrammarMachine | None:
    """The recogniser of a pattern; ``None`` if no text fits."""
    try:
        return GrammarMachine(network_from_grammar(lower_regex(constraint)))
    except UnsatisfiableError:
        return None


def _not_refused(constraint: Regex, why: str) -> Fault | None:
    try:
        lower_regex(constraint)
    except (InvalidConstraintError, UnsupportedFeatureError, LimitExceededError):
        return None
    return Fault("wrong pattern taken", why)


def _witnesses(machine: GrammarMachine | None, pattern: str) -> list[str]:
    """Texts that the machine writes itself."""
    if machine is None:
        return []
    return [
        random_text(machine, random.Random(f"{pattern} {seed}"), 4) for seed in range(_WITNESSES)
    ]


def _by_re(compiled: re.Pattern[str], text: str) -> bool | None:
    """The verdict of ``re``; ``None`` if it tries too many ways."""

    def stop(*_: object) -> None:
        raise TimeoutError

    # The timer of processor time: pytest's own limits use the other one.
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        return bool(compiled.fullmatch(text))
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _by_regex(pattern: str, text: str) -> bool | None:
    """The verdict of the module ``regex``; ``None`` if it differs by design or takes long."""
    if "i" in "".join(re.findall(r"\(\?([a-z]+)", pattern)) or r"\B" in pattern:
        return None
    try:
        return bool(regex.fullmatch(pattern, text, regex.V0, timeout=_SECONDS))
    except (regex.error, TimeoutError):
        return None


def _wrong(accepted: bool, text: str, how: str = "") -> Fault:
    return Fault(f"{how}{'accepted' if accepted else 'rejected'}", repr(text))


def _changed(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    other: str = rng.choice(["", *LETTERS])
    return text[:at] + other + text[at + rng.randrange(2) :]
