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
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.grammar.context_free import Terminal
from guided.regular.codepoints import ANY, CodePoints
from guided.regular.dfa import DEAD, Dfa, crawl, dfa_from_regular
from guided.regular.expression import (
    ANYTHING,
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Look,
    Regular,
    Repeat,
)
from guided.regular.partition import partition
from guided.regular.patterns.terminal_edges import is_nullable
from guided.runtime.fuel import spend

__all__ = ["Scanned", "Scanners", "Token"]

_MAX_NODES: Final = 20_000


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


class _Ahead(NamedTuple):
    """Goes on in a node if what follows begins with a character of a set, or does not."""

    set: int
    negative: bool
    target: int


class _Match(NamedTuple):
    """A text of the terminal of this number ends."""

    terminal: int


_Node: TypeAlias = _Split | _Read | _Behind | _Ahead | _Match


class _Next(NamedTuple):
    """What a look-ahead asks of what follows."""

    classes: frozenset[int]
    """Of characters that may."""
    nothing: bool
    """Whether the text may end."""


class _Thread(NamedTuple):
    node: int
    next: _Next | None


class _State(NamedTuple):
    threads: tuple[_Thread, ...]
    """Those that read and those that match, sooner ones first; none behind a certain match."""
    behind: tuple[int, ...]
    """The state of each look-behind."""
    length: int
    """Characters so far, as many as look-behinds look at."""
    words: tuple[tuple[int, int, int], ...]
    """Terminal, word and state of the words that the text so far may be, or become."""


class _End(NamedTuple):
    """How a text may end: as a token, if all that is asked of what follows holds."""

    token: Token
    after: tuple[Look, ...]


_MATCHED = _State((), (), -1, ())
"""Behind a match, whatever follows."""


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
            case Look(item, ahead=False):
                if _holds_look(item):
                    raise UnsupportedFeatureError(
                        "look-around in look-behind is not supported in the contextual reading"
                    )
                return self.add(_Behind(self.looks.setdefault(regular, len(self.looks)), target))
            case Look(Chars(chars), negative=negative):
                number = self.sets.setdefault(chars, len(self.sets))
                return self.add(_Ahead(number, negative, target))
        raise UnsupportedFeatureError(
            "a look-ahead at more than a character is not supported in the contextual reading",
            hint="say it with other terminals, or read the grammar as a context-free one",
        )

    def _repeat(self, repeat: Repeat, target: int) -> int:
        item, low, high, lazy = repeat.item, repeat.low, repeat.high, repeat.lazy
        if high != 1 and is_nullable(item):
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
        nodes = _Nodes()
        starts = [
            nodes.before(terminal.pattern, nodes.add(_Match(number)))
            for number, terminal in enumerate(terminals)
        ]
        self._start = nodes.add(_Split(tuple(starts)))
        self._nodes = nodes.nodes
        self._looks = [
            (dfa_from_regular(Concat((ANYTHING, look.item))), _width(look.item), look.negative)
            for look in nodes.looks
        ]
        self._reach = max((width for _, width, _ in self._looks), default=0)
        self._words = [
            [dfa_from_regular(word) for _, word in terminal.words] for terminal in terminals
        ]
        automata = [dfa for dfa, _, _ in self._looks] + [dfa for w in self._words for dfa in w]
        sets = [*nodes.sets, *(chars for dfa in automata for chars in dfa.classes), ANY]
        parts = partition(sets)
        self.classes = parts.classes
        members = parts.members
        self._members = [frozenset(members[number]) for number in range(len(nodes.sets))]
        self._all = frozenset(range(len(self.classes)))
        self._columns: dict[int, dict[int, int]] = {}
        first = len(nodes.sets)
        for dfa in automata:
            columns = {c: at for at in range(len(dfa.classes)) for c in members[first + at]}
            self._columns[id(dfa)] = columns
            first += len(dfa.classes)
        self._better: dict[_State, Regular | None] = {}
        self._ends: dict[tuple[_End, ...], int] = {}

    def automaton(self) -> tuple[Dfa, Sequence[tuple[_End, ...]]]:
        """The texts that are cut off if what follows them is right, and by label how they end."""
        made = crawl(self.classes, self._begun(), self._step, self._label)
        return made, list(self._ends)

    def takes_whole(self, text: str) -> bool:
        """Whether what is cut off a text is all of it."""
        state = self._begun()
        for character in text:
            members = (at for at, each in enumerate(self.classes) if ord(character) in each)
            index = next(members, None)
            behind = None if index is None else self._step(state, index)
            if behind is None:
                return False
            state = behind
        return self._may_match(state) != DEAD

    def _begun(self) -> _State:
        begun = tuple(0 if len(dfa) else DEAD for dfa, _, _ in self._looks)
        words = tuple(
            (terminal, word, 0)
            for terminal, dfas in enumerate(self._words)
            for word, dfa in enumerate(dfas)
            if len(dfa)
        )
        return self._closed([_Thread(self._start, None)], _State((), begun, 0, words))

    def _step(self, state: _State, index: int) -> _State | None:
        targets: list[_Thread] = []
        for thread in state.threads:
            if thread.next is not None and index not in thread.next.classes:
                continue
            node = self._nodes[thread.node]
            if isinstance(node, _Match):
                break  # it has matched before this character, so all behind it has lost
            if isinstance(node, _Read) and index in self._members[node.set]:
                targets.append(_Thread(node.target, None))
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

    def _closed(self, targets: list[_Thread], state: _State) -> _State:
        """The state with the threads that go on in the targets, up to the first certain match."""
        threads: list[_Thread] = []
        seen: set[_Thread] = set()
        stack = targets[::-1]
        while stack:
            thread = stack.pop()
            if thread in seen:
                continue
            seen.add(thread)
            spend(1)
            match self._nodes[thread.node]:
                case _Split(onward):
                    stack += (_Thread(target, thread.next) for target in onward[::-1])
                case _Behind(look, target):
                    if self._holds(look, state):
                        stack.append(_Thread(target, thread.next))
                case _Ahead(number, negative, target):
                    asked = self._asked(number, negative, thread.next)
                    if asked.classes or asked.nothing:
                        stack.append(_Thread(target, asked))
                case _Match():
                    threads.append(thread)
                    if thread.next is None:
                        break
                case _Read():
                    threads.append(thread)
        return state._replace(threads=tuple(threads))

    def _asked(self, number: int, negative: bool, before: _Next | None) -> _Next:
        members = self._members[number]
        classes = self._all - members if negative else members
        if before is None:
            return _Next(classes, negative)
        return _Next(classes & before.classes, negative and before.nothing)

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
        ends = tuple(
            _End(self._token(node.terminal, state), self._after(state, rank))
            for rank, thread in enumerate(state.threads)
            if isinstance(node := self._nodes[thread.node], _Match)
        )
        return self._ends.setdefault(ends, len(self._ends)) if ends else DEAD

    def _token(self, number: int, state: _State) -> Token:
        terminal = self._terminals[number]
        for matched, word, at in state.words:
            if matched == number and self._words[matched][word].label[at] != DEAD:
                return Token(terminal.words[word][0], terminal.ignored)
        return Token(terminal.name, terminal.ignored)

    def _after(self, state: _State, rank: int) -> tuple[Look, ...]:
        """What has to hold of what follows if the match of a thread is the best one."""
        own = state.threads[rank].next
        looks = [] if own is None else [self._look(own)]
        sooner = state._replace(threads=state.threads[:rank], words=())
        better = self._best(sooner)
        if better is not None:
            looks.append(Look(better, negative=True))
        return tuple(looks)

    def _look(self, asked: _Next) -> Look:
        classes = self._all - asked.classes if asked.nothing else asked.classes
        bounds = (each for index in classes for each in self.classes[index].ranges)
        return Look(Chars(CodePoints.of(bounds)), negative=asked.nothing)

    def _best(self, state: _State) -> Regular | None:
        """What lets any of the threads match if it follows, up to its end; None if nothing does."""
        if state not in self._better:
            made = crawl(self.classes, state, self._towards_match, self._may_match)
            self._better[state] = _graph(made, to_the_end=True) if len(made) else None
        return self._better[state]

    def _towards_match(self, state: _State, index: int) -> _State | None:
        if state == _MATCHED:
            return state
        for thread in self._matches(state):
            if thread.next is None or index in thread.next.classes:
                return _MATCHED
        return self._step(state, index)

    def _may_match(self, state: _State) -> int:
        """0 if a thread has matched where the text ends here, else DEAD."""
        matched = any(each.next is None or each.next.nothing for each in self._matches(state))
        return 0 if matched or state == _MATCHED else DEAD

    def _matches(self, state: _State) -> list[_Thread]:
        return [each for each in state.threads if isinstance(self._nodes[each.node], _Match)]


class Scanners:
    """What scanners cut off; equal parts of different scanners are one."""

    def __init__(self) -> None:
        self._texts: dict[object, Regular] = {}
        self._looks: dict[object, Look] = {}
        self._alone: dict[Regular, _Scanner] = {}

    def takes_whole(self, pattern: Regular, text: str) -> bool:
        """Whether the first match of a pattern in a text is all of it; raises as ``cut`` does."""
        if pattern not in self._alone:
            self._alone[pattern] = _Scanner([Scanned("", pattern)])
        return self._alone[pattern].takes_whole(text)

    def cut(self, terminals: Sequence[Scanned]) -> Mapping[Token, tuple[Terminal, ...]]:
        """By token the terminals that it is a choice of.

        Raises UnsupportedFeatureError for patterns that are not regular in this way.
        """
        dfa, ends = _Scanner(terminals).automaton()
        states: dict[_End, list[int]] = {}
        for state, label in enumerate(dfa.label.tolist()):
            for end in ends[label] if label != DEAD else ():
                token, after = end
                known = _End(token, tuple(map(self._known, after)))
                states.setdefault(known, []).append(state)
        found: dict[Token, tuple[Terminal, ...]] = {}
        for (token, after), at in states.items():
            label = np.full(len(dfa), DEAD, dtype=np.int32)
            label[at] = 0
            texts = Dfa(dfa.classes, dfa.next, label).relabelled({0: 0})
            found[token] = (*found.get(token, ()), Terminal(self._one(texts), after=after))
        return found

    def _known(self, look: Look) -> Look:
        """The same for look-aheads at the same texts."""
        key = (_canonical(dfa_from_regular(Concat((look.item, ANYTHING)))), look.negative)
        return self._looks.setdefault(key, look)

    def _one(self, dfa: Dfa) -> Regular:
        """The same expression for automata of the same texts."""
        return self._texts.setdefault(_canonical(dfa), _graph(dfa))


def _graph(dfa: Dfa, *, to_the_end: bool = False) -> Regular:
    """The texts of an automaton."""
    count = len(dfa)
    moves = [
        (source, chars, end)
        for chars, column in zip(dfa.classes, dfa.next.T.tolist(), strict=True)
        for source, target in enumerate(column)
        if target != DEAD
        for end in ((target, count) if dfa.label[target] != DEAD else (target,))
    ]
    graph: Regular = Graph.of(count + 1, moves, 0, count)
    if dfa.label[0] != DEAD:
        graph = Alternate((graph, Concat(())))
    return Concat((graph, End())) if to_the_end else graph


def _holds_look(node: Regular) -> bool:
    """Whether look-around stands in an expression."""
    match node:
        case Concat(parts) | Alternate(parts):
            return any(map(_holds_look, parts))
        case Repeat(item):
            return _holds_look(item)
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
    if not len(dfa):
        return ()
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
