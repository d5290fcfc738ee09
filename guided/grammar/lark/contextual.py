"""Lark grammars as Lark's LALR parser reads them, with its contextual scanner.

That scanner looks for the terminals alone that the parser's state has actions for, and cuts off
the first match of their joined patterns. A state of an LR automaton is a function of what was
parsed, so rules are written out for the states in which they begin, and a terminal turns to the
*context* of the state behind it: the terminals that are looked for there. So the language is
context-free, and all that the scanner hides is said by what must not follow terminals
(``scanner``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lark.common import ParserConf
from lark.exceptions import GrammarError
from lark.grammar import NonTerminal
from lark.lexer import PatternRE, PatternStr, TerminalDef
from lark.parsers.lalr_analysis import LALR_Analyzer
from typing_extensions import override

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.grammar.context_free import (
    Body,
    Call,
    Choice,
    ContextFreeGrammar,
    InContext,
    Sequence,
    Times,
    ToContext,
)
from guided.grammar.lark.alternatives import check_alternatives
from guided.grammar.lark.definitions import definitions_of
from guided.grammar.lark.lark_loader import as_ours, load_grammar
from guided.grammar.lark.lower import lower_definitions, template_of
from guided.grammar.lark.scanner import Scanned, Scanners
from guided.regular.patterns.python import parse_python_regex
from guided.runtime.fuel import spend

__all__ = ["lower_contextual"]

_WHOLE = "%whole"


def lower_contextual(
    text: str, start: str = "start", imports: Mapping[str, str] | None = None
) -> ContextFreeGrammar:
    """The texts that ``Lark(text, parser="lalr")`` parses.

    Raises what ``lower_lark`` does, and UnsupportedFeatureError for a grammar that is not LALR(1).
    """
    imports = imports or {}
    # What is wrong in either reading is told with its place, and templates without end are.
    definitions = definitions_of(text, imports)
    plain = lower_definitions(definitions, start, {})
    uses = Counter(template_of(name) for name in plain.rules)
    check_alternatives(
        (body.tree, max(uses[each.name], 1))
        for each in definitions.named.values()
        if not each.is_terminal
        for body in each.bodies
    )
    with as_ours():
        grammar = load_grammar(text, imports)
        terminals, rules, ignored = grammar.compile([start], set())
        spend(200 * sum(len(rule.expansion) + 1 for rule in rules))
        # Lark looks at all that lies between any two symbols, and copies it.
        spend(sum(len(rule.expansion) ** 3 for rule in rules) // 4)
        for rule in rules:
            # By them Lark decides conflicts, and loses texts.
            rule.options.priority = None
        analysis = _Analysis(ParserConf(rules, {}, [start]), strict=True)
        try:
            analysis.compute_lalr()  # type: ignore[no-untyped-call]
        except GrammarError as error:
            raise UnsupportedFeatureError(
                f"the grammar is not LALR(1), as the contextual reading needs it: {error}",
                hint="resolve the conflict, or read the grammar as a context-free one",
            ) from error
        table: Any = analysis.parse_table
        # Widths of patterns are asked of Lark, which does not take them all.
        contexts = _Contexts(terminals, frozenset(ignored), table.states)
        return _Rules(rules, table.states, contexts).grammar(table.start_states[start], start)


class _Analysis(LALR_Analyzer):
    """Lark's analysis, with its work counted: it grows with the cube of a grammar."""

    @override
    def expand_rule(self, source_rule: NonTerminal, rules_by_origin: Any = None) -> Any:
        found = super().expand_rule(source_rule, rules_by_origin)
        spend(4 * (1 + len(found)))
        return found

    @override
    def compute_includes_lookback(self) -> None:
        spend(sum(len(state.closure) for state, _ in self.nonterminal_transitions) // 3)
        super().compute_includes_lookback()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """What the scanner cuts off where it looks for some terminals."""

    number: int
    tokens: Mapping[str, Body]
    blank: Body


class _Contexts:
    """The contexts of the parser's states, made when they are asked for."""

    def __init__(
        self,
        terminals: list[TerminalDef],
        ignored: frozenset[str],
        states: Mapping[int, Mapping[str, Any]],
    ) -> None:
        self._ignored = ignored
        self._states = states
        self._names = {terminal.name for terminal in terminals}
        # Ours tell what is wrong with one; Lark, asked for its width, does not.
        self._patterns = {
            terminal.name: parse_python_regex(terminal.pattern.to_regexp())
            for terminal in terminals
        }
        # The order in which Lark tries them.
        self._terminals = sorted(
            terminals,
            key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
        )
        self._scanners = Scanners()
        self._known: dict[frozenset[str], _Context] = {}
        self._words: dict[tuple[str, str], bool] = {}

    def of(self, state: int) -> _Context:
        """The context of a state of the parser; the first that is asked for has number 0."""
        looked_for = self._names & (self._states[state].keys() | self._ignored)
        key = frozenset(looked_for)
        if key not in self._known:
            self._known[key] = self._made(key)
        return self._known[key]

    def merged(self) -> tuple[list[_Context], list[int]]:
        """The contexts that were asked for, those made one that agree, and by number which it is.

        They agree where both cut off the terminals alike that both look for. What only one of them
        looks for cannot follow in a state of the other.
        """
        merged: list[_Context] = []
        which: list[int] = []
        for context in self._known.values():
            spend(10 * len(merged))
            found = next((each for each in merged if _agree(each, context)), None)
            number = len(merged) if found is None else found.number
            tokens = {**context.tokens, **({} if found is None else found.tokens)}
            merged[number : number + 1] = [_Context(number, tokens, context.blank)]
            which.append(number)
        return merged, which

    def _made(self, names: frozenset[str]) -> _Context:
        chosen = [terminal for terminal in self._terminals if terminal.name in names]
        texts = [terminal for terminal in chosen if isinstance(terminal.pattern, PatternStr)]
        for terminal in chosen:
            if terminal.pattern.min_width == 0:
                raise InvalidConstraintError(
                    f"the terminal {terminal.name} may be empty, which no scanner can cut off"
                )
        words: dict[str, list[str]] = {}
        embedded: set[str] = set()
        for terminal in chosen:
            if not isinstance(terminal.pattern, PatternRE):
                continue
            for word in texts:
                if word.priority == terminal.priority and self._is_word(word, terminal):
                    words.setdefault(terminal.name, []).append(word.name)
                    if set(word.pattern.flags) <= set(terminal.pattern.flags):
                        embedded.add(word.name)
        scanned = [
            Scanned(
                terminal.name,
                self._patterns[terminal.name],
                terminal.name in self._ignored,
                tuple((word, self._patterns[word]) for word in words.get(terminal.name, ())),
            )
            for terminal in chosen
            if terminal.name not in embedded
        ]
        cut = self._scanners.cut(scanned)
        # Some are looked for and never found: others always win.
        tokens: dict[str, Body] = dict.fromkeys(names, Choice(()))
        tokens |= {token.name: _choice(found) for token, found in cut.items() if not token.ignored}
        blank = [each for token, found in cut.items() if token.ignored for each in found]
        return _Context(len(self._known), tokens, Times(Choice(tuple(blank)), 0, None))

    def _is_word(self, word: TerminalDef, terminal: TerminalDef) -> bool:
        """Whether a terminal that is a text is what another one finds first in that text."""
        key = word.name, terminal.name
        if key not in self._words:
            pattern = self._patterns[terminal.name]
            self._words[key] = self._scanners.takes_whole(pattern, word.pattern.value)
        return self._words[key]


def _agree(one: _Context, other: _Context) -> bool:
    return one.blank == other.blank and all(
        other.tokens.get(name, cut) == cut for name, cut in one.tokens.items()
    )


class _Place(NamedTuple):
    """A rule of the grammar where it begins in a state of the parser."""

    state: int
    rule: str


class _Rules:
    def __init__(
        self, rules: list[Any], states: Mapping[int, Mapping[str, Any]], contexts: _Contexts
    ) -> None:
        self._expansions: dict[str, list[Any]] = {}
        for rule in rules:
            self._expansions.setdefault(rule.origin.name, []).append(rule.expansion)
        self._states = states
        self._contexts = contexts
        self._bodies: dict[_Place, list[list[_Step]]] = {}
        self._merged_contexts: list[_Context] = []

    def grammar(self, begin: int, start: str) -> ContextFreeGrammar:
        """The grammar of what the parser takes from a state on."""
        self._contexts.of(begin)
        whole = _Place(begin, start)
        waiting = [whole]
        for place in waiting:
            if place not in self._bodies:
                self._bodies[place] = self._walked(place)
                waiting += [s.place for steps in self._bodies[place] for s in steps if s.place]
        self._merged_contexts, which = self._contexts.merged()
        for place, options in self._bodies.items():
            self._bodies[place] = [[step.in_context(which) for step in each] for each in options]
        names = self._merged()
        rules: dict[str, Body] = {}
        for place, options in self._bodies.items():
            if names[place] not in rules:
                bodies = [Sequence(tuple(self._body(s, names) for s in steps)) for steps in options]
                rules[names[place]] = _choice(bodies)
        ends = self._in_contexts(None)
        rules[_WHOLE] = Sequence((Call(names[whole]), ends))
        return ContextFreeGrammar(rules, _WHOLE)

    def _walked(self, place: _Place) -> list[list[_Step]]:
        """The expansions of a rule, each symbol with the states around it."""
        options: list[list[_Step]] = []
        for expansion in self._expansions[place.rule]:
            at, known = place.state, False
            steps: list[_Step] = []
            for symbol in expansion:
                spend(20)
                behind = self._states[at][symbol.name][1]
                if isinstance(symbol, NonTerminal):
                    steps.append(_Step(None, None, None, _Place(at, symbol.name)))
                    known = False
                else:
                    here = self._contexts.of(at).number if known else None
                    behind_it = self._contexts.of(behind).number
                    steps.append(_Step(symbol.name, here, behind_it, None))
                    known = True
                at = behind
            options.append(steps)
        return options

    def _merged(self) -> dict[_Place, str]:
        """Names of places, the same for those where a rule means the same: a partition refined."""
        classes: dict[_Place, int] = dict.fromkeys(self._bodies, 0)
        count = 0
        while True:
            numbers: dict[object, int] = {}
            refined: dict[_Place, int] = {}
            for place, options in self._bodies.items():
                spend(5 * sum(map(len, options)))
                said = tuple(
                    tuple(
                        (classes[s.place],) if s.place else (s.terminal, s.here, s.behind)
                        for s in steps
                    )
                    for steps in options
                )
                key = (place.rule, classes[place], said)
                refined[place] = numbers.setdefault(key, len(numbers))
            if len(numbers) == count:
                return {place: f"{place.rule}@{number}" for place, number in refined.items()}
            count, classes = len(numbers), refined

    def _body(self, step: _Step, names: Mapping[_Place, str]) -> Body:
        if step.place is not None:
            return Call(names[step.place])
        assert step.terminal is not None
        assert step.behind is not None
        return Sequence((self._in_contexts(step.terminal, step.here), ToContext(step.behind)))

    def _in_contexts(self, terminal: str | None, here: int | None = None) -> Body:
        """What is ignored and then a terminal, as they are cut off in each of the contexts.

        No terminal is the end of the text.
        """
        alike: dict[tuple[Body, ...], list[int]] = {}
        for context in self._merged_contexts:
            if here is not None and context.number != here:
                continue
            if terminal is None:
                alike.setdefault((context.blank,), []).append(context.number)
            elif terminal in context.tokens:
                parts = (context.blank, context.tokens[terminal])
                alike.setdefault(parts, []).append(context.number)
        return _choice(
            [Sequence((InContext(frozenset(numbers)), *parts)) for parts, numbers in alike.items()]
        )


class _Step(NamedTuple):
    """A symbol of an expansion: a terminal, or a rule at its place."""

    terminal: str | None
    here: int | None
    """The context that it is cut off in, where that is known."""
    behind: int | None
    """The context behind it."""
    place: _Place | None

    def in_context(self, which: list[int]) -> _Step:
        """The step with the numbers of its contexts replaced."""
        here = None if self.here is None else which[self.here]
        behind = None if self.behind is None else which[self.behind]
        return self._replace(here=here, behind=behind)


def _choice(options: Any) -> Body:
    return options[0] if len(options) == 1 else Choice(tuple(options))
