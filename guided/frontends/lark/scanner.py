"""What Lark's scanner cuts off a text, as terminals that say what must not follow them.

Where several terminals may come, Lark joins their patterns to one, in an order of its own, and
takes what Python's matcher finds first. That is an automaton whose states are *ordered* lists of
threads: one that has matched ends all behind it, and those before it may still make a better match.
So a terminal ends in a state unless what follows lets one of the threads before it match, and
*that* is a negative look-ahead at the edge of the terminal::

    "=" | "=="        "=" before (?!=)        "=="
    /[a-z]+/          [a-z]+ before (?![a-z])

No scanner is needed then: the texts are those of the context-free grammar over such terminals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from guided.automata.codepoints import CodePoints
from guided.automata.dfa import DEAD, Dfa, crawl, dfa_from_regular
from guided.automata.fuel import spend
from guided.automata.partition import partition
from guided.automata.regular import (
    ANYTHING,
    Alternate,
    Chars,
    Concat,
    Graph,
    Look,
    Regular,
    Repeat,
)
from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.context_free import Terminal

__all__ = ["Scanned", "Scanners", "Token"]

_MAX_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Scanned:
    """A terminal that the scanner looks for."""

    name: str
    pattern: Regular
    ignored: bool = False
    words: tuple[tuple[str, Regular], ...] = ()
    """Names and patterns of terminals that a text of this one is, if it is one of theirs."""


class Token(NamedTuple):
    """What a cut-off text is to the parser."""

    name: str
    ignored: bool


class _Split(NamedTuple):
    """Goes on in each of some nodes, sooner ones first."""

    targets: tuple[int, ...]


class _Read(NamedTuple):
    """Reads a character of a set, and goes on in a node."""

    set: int
    target: int


class _Behind(NamedTuple):
    """Goes on in a node where a look-behind holds."""

    look: int
    target: int


class _Match(NamedTuple):
    """A text of the terminal of this number ends."""

    terminal: int


_Node: TypeAlias = _Split | _Read | _Behind | _Match


class _State(NamedTuple):
    threads: tuple[int, ...]
    """Nodes that read, in order, and one that matches as the last of them, if any does."""
    behind: tuple[int, ...]
    """The state of each look-behind."""
    length: int
    """Characters so far, as many as look-behinds look at."""
    words: tuple[tuple[int, int, int], ...]
    """Terminal, word and state of the words that the text so far may be, or become."""


class _Nodes:
    """Nodes laid down from the end of each expression to its beginning."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.sets: dict[CodePoints, int] = {}
        self.looks: dict[Look, int] = {}

    def add(self, node: _Node) -> int:
        spend(2)
        if len(self.nodes) >= _MAX_NODES:
            raise LimitExceededError(
                f"the patterns that may come in one place need more than {_MAX_NODES} states",
                limit=_MAX_NODES,
                field="constraint",
                hint="lower the bounds of repeats, or read the grammar as a context-free one",
            )
        self.nodes.append(node)
        return len(self.nodes) - 1

    def before(self, regular: Regular, target: int) -> int:
        """The node in which an expression begins that goes on in ``target``."""
        match regular:
            case Chars(chars):
                return self.add(_Read(self.sets.setdefault(chars, len(self.sets)), target))
            case Concat(parts):
                for part in reversed(parts):
                    target = self.before(part, target)
                return target
            case Alternate(options):
                return self.add(_Split(tuple(self.before(each, target) for each in options)))
            case Repeat():
                return self._repeat(regular, target)
            case Look(_, ahead=False):
                return self.add(_Behind(self.looks.setdefault(regular, len(self.looks)), target))
        raise UnsupportedFeatureError(
            "a look-ahead in a terminal is not supported in the contextual reading",
            hint="say it with other terminals, or read the grammar as a context-free one",
        )

    def _repeat(self, repeat: Repeat, target: int) -> int:
        item, low, high, lazy = repeat.item, repeat.low, repeat.high, repeat.lazy
        if high != 1 and _is_nullable(item):
            raise UnsupportedFeatureError(
                "a repeat of what may be empty is not supported in the contextual reading",
                hint="leave the empty text to the repeat, as in (a+)* for (a*)*",
            )
        here = target
        if high is None:
            loop = self.add(_Split(()))
            again = self.before(item, loop)
            self.nodes[loop] = _Split((target, again) if lazy else (again, target))
            here = loop
        else:
            # x{0,2} -> (x(x)?)?
            for _ in range(high - low):
                again = self.before(item, here)
                here = self.add(_Split((target, again) if lazy else (again, target)))
        for _ in range(low):
            here = self.before(item, here)
        return here


class _Scanner:
    """The automaton of one list of terminals, in the order in which they are tried."""

    def __init__(self, terminals: Sequence[Scanned]) -> None:
        self._terminals = terminals
        self._nodes = _Nodes()
        starts = [
            self._nodes.before(terminal.pattern, self._nodes.add(_Match(number)))
            for number, terminal in enumerate(terminals)
        ]
        self._start = self._nodes.add(_Split(tuple(starts)))
        self._looks = [
            (dfa_from_regular(Concat((ANYTHING, look.item))), _width(look.item), look.negative)
            for look in self._nodes.looks
        ]
        self._reach = max((width for _, width, _ in self._looks), default=0)
        self._words = [
            [dfa_from_regular(word) for _, word in terminal.words] for terminal in terminals
        ]
        automata = [dfa for dfa, _, _ in self._looks] + [dfa for w in self._words for dfa in w]
        sets = [*self._nodes.sets, *(chars for dfa in automata for chars in dfa.classes)]
        parts = partition(sets)
        self.classes = parts.classes
        members = parts.members(len(sets))
        self._members = [set(members[number]) for number in range(len(self._nodes.sets))]
        self._columns: dict[int, dict[int, int]] = {}
        first = len(self._nodes.sets)
        for dfa in automata:
            columns = {c: at for at in range(len(dfa.classes)) for c in members[first + at]}
            self._columns[id(dfa)] = columns
            first += len(dfa.classes)
        self.tokens: dict[Token, int] = {}

    def automaton(self) -> Dfa:
        """The texts that are cut off, if nothing better follows, labelled with their tokens."""
        begun = tuple(0 if len(dfa) else DEAD for dfa, _, _ in self._looks)
        words = tuple(
            (terminal, word, 0)
            for terminal, dfas in enumerate(self._words)
            for word, dfa in enumerate(dfas)
            if len(dfa)
        )
        first = self._closed([self._start], _State((), begun, 0, words))
        return crawl(self.classes, first, self._step, self._label)

    def _step(self, state: _State, index: int) -> _State | None:
        targets: list[int] = []
        for thread in state.threads:
            node = self._nodes.nodes[thread]
            if isinstance(node, _Read) and index in self._members[node.set]:
                targets.append(node.target)
        if not targets:
            return None
        behind = tuple(
            self._moved(dfa, at, index)
            for (dfa, _, _), at in zip(self._looks, state.behind, strict=True)
        )
        moved = (
            (terminal, word, self._moved(self._words[terminal][word], at, index))
            for terminal, word, at in state.words
        )
        words = tuple(each for each in moved if each[2] != DEAD)
        length = min(state.length + 1, self._reach)
        closed = self._closed(targets, _State((), behind, length, words))
        return closed if closed.threads else None

    def _moved(self, dfa: Dfa, at: int, index: int) -> int:
        column = self._columns[id(dfa)].get(index)
        return DEAD if at == DEAD or column is None else int(dfa.next[at, column])

    def _closed(self, targets: list[int], state: _State) -> _State:
        """The state with the threads that go on in the targets, up to the first that matches."""
        threads: list[int] = []
        seen: set[int] = set()
        stack = targets[::-1]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            spend(1)
            match self._nodes.nodes[at]:
                case _Split(onward):
                    stack += onward[::-1]
                case _Behind(look, target):
                    if self._holds(look, state):
                        stack.append(target)
                case _Match():
                    threads.append(at)
                    break
                case _Read():
                    threads.append(at)
        return state._replace(threads=tuple(threads))

    def _holds(self, look: int, state: _State) -> bool:
        dfa, width, negative = self._looks[look]
        if state.length < width:
            raise UnsupportedFeatureError(
                "a look-behind that sees what stands before a terminal is not supported in the"
                " contextual reading"
            )
        at = state.behind[look]
        return (at != DEAD and dfa.label[at] != DEAD) != negative

    def _label(self, state: _State) -> int:
        node = self._nodes.nodes[state.threads[-1]] if state.threads else None
        if not isinstance(node, _Match):
            return DEAD
        terminal = self._terminals[node.terminal]
        token = Token(terminal.name, terminal.ignored)
        for number, word, at in state.words:
            if number == node.terminal and self._words[number][word].label[at] != DEAD:
                token = Token(terminal.words[word][0], terminal.ignored)
                break
        return self.tokens.setdefault(token, len(self.tokens))


class Scanners:
    """What scanners cut off; equal parts of different scanners are one."""

    def __init__(self) -> None:
        self._made: dict[object, Regular] = {}

    def cut(self, terminals: Sequence[Scanned]) -> Mapping[Token, tuple[Terminal, ...]]:
        """By token the terminals that it is a choice of.

        Raises UnsupportedFeatureError for patterns that are not regular in this way.
        """
        scanner = _Scanner(terminals)
        dfa = scanner.automaton()
        tokens = {number: token for token, number in scanner.tokens.items()}
        # By token and what must not follow the states in which it ends.
        ends: dict[tuple[int, Regular | None], list[int]] = {}
        for state, label in enumerate(dfa.label.tolist()):
            if label != DEAD:
                better = self._texts(dfa, state, range(len(dfa)), anything_behind=True)
                ends.setdefault((label, better), []).append(state)
        found: dict[Token, tuple[Terminal, ...]] = {}
        for (label, better), states in ends.items():
            texts = self._texts(dfa, 0, states)
            assert texts is not None, "an end that nothing leads to"
            after = () if better is None else (Look(better, negative=True),)
            token = tokens[label]
            found[token] = (*found.get(token, ()), Terminal(texts, after=after))
        return found

    def _texts(
        self, dfa: Dfa, first: int, last: Sequence[int], *, anything_behind: bool = False
    ) -> Regular | None:
        """Texts along moves from a state to one of others that accepts, none if there are none.

        With ``anything_behind`` they are told apart no further than by what begins with them.
        """
        ends = {state for state in last if dfa.label[state] != DEAD}
        count = len(dfa)
        moves = [
            (source, chars, end)
            for chars, column in zip(dfa.classes, dfa.next.T.tolist(), strict=True)
            for source, target in enumerate(column)
            if target != DEAD
            for end in ((target, count) if target in ends else (target,))
        ]
        graph = Graph(count + 1, tuple(moves), first, count)
        texts = dfa_from_regular(Concat((graph, ANYTHING)) if anything_behind else graph)
        if not len(texts):
            return None
        return self._made.setdefault(_canonical(texts), graph)


def _is_nullable(node: Regular) -> bool:
    match node:
        case Concat(parts):
            return all(map(_is_nullable, parts))
        case Alternate(options):
            return any(map(_is_nullable, options))
        case Repeat(item, low):
            return low == 0 or _is_nullable(item)
    return isinstance(node, Look)


def _width(node: Regular) -> int:
    """Characters of what a look-behind looks for, which Python wants to be as many in all cases."""
    match node:
        case Chars():
            return 1
        case Concat(parts):
            return sum(map(_width, parts))
        case Alternate(options):
            return max(map(_width, options), default=0)
        case Repeat(item, low):
            return low * _width(item)
    return 0


def _canonical(dfa: Dfa) -> tuple[object, ...]:
    """The same for all minimal automata of a language over the same classes."""
    order = sorted(range(len(dfa.classes)), key=lambda at: dfa.classes[at].ranges)
    table = dfa.next[:, order].tolist()
    numbers = {0: 0}
    for state in (queue := [0]):
        for target in table[state]:
            if target != DEAD and target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
    rows = tuple(
        (int(dfa.label[state]), *(numbers.get(target, DEAD) for target in table[state]))
        for state in queue
    )
    return tuple(dfa.classes[at] for at in order), rows
