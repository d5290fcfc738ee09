"""Grammars made to take for ever: refused, or accepted, within counted bounds."""

from __future__ import annotations

import time

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import LimitExceededError, RequestError
from guided.grammar.composition import lower_composition
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.machine.parts import RecognizerLimits
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work
from guided.spec import Lark, Regex
from guided.spec.library import read_grammar
from tests.kit.walks import BYTES


def _nested(depth: int) -> str:
    return "start: " + "(" * depth + '"a"' + ")" * depth


def _doubling(count: int, last: str) -> str:
    return "\n".join([f"r{n}: r{n + 1} r{n + 1}" for n in range(count)] + [f"r{count}: {last}"])


_REFUSED = {
    "repeats of repeats": 'start: ("a" ~ 1..1000) ~ 1..1000',
    "repeats of repeats in a pattern": "start: /(a{1,1000}){1,1000}/",
    "alternatives": "start: " + " | ".join(f'"w{n}"' for n in range(100_000)),
    "length": 'start: "a"\n' * 90_000,
    "depth": _nested(5_000),
    "doubled rules": "start: r0\n" + _doubling(60, '"z"'),
    "doubled terminals": ("start: R0\n" + _doubling(60, '"z"').upper()).replace('"Z"', '"z"'),
    "terminals in terminals": "start: T0\n"
    + "".join(f"T{n}: T{n + 1} /x/\n" for n in range(300)) + "T300: /y/",
    "brackets in terminals": "start: T0\n"
    + "".join(f"T{n}: {'(/x/' * 90} T{n + 1} {')?' * 90}\n" for n in range(20)) + "T20: /y/",
    "digits": f"start: /a/ ~ {'9' * 5_000}",
    "priorities": f"start.{'9' * 5_000}: /a/",
    "endless templates": 'start: a{"x"}\na{x}: a{a{x}} | x',
    "subsets": 'start: /(a|b)*a(a|b){20}/',
    "subsets of rules": 'start: ("a" | "b")* "a" ("a" | "b") ~ 20',
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_too_large_is_refused(name: str) -> None:
    with pytest.raises(LimitExceededError) as caught:
        ConstraintCompiler(BYTES).start(Lark(_REFUSED[name]))
    assert caught.value.limit


@pytest.mark.parametrize(
    "imports",
    [
        {"a": "%import a.x\nx: y"},
        {"a": "%import b.x", "b": "%import a.x"},
        # Each is read twice as often as the one before it.
        {
            f"a{n}": f"%import a{n + 1}.x\n%import a{n + 1}.y\n%import b{n + 1}.x -> z"
            for n in range(19)
        }
        | {f"b{n}": f"%import a{n + 1}.x\n%import b{n + 1}.y" for n in range(19)},
    ],
)
def test_imports_of_imports_are_bounded(imports: dict[str, str]) -> None:
    first = min(imports)
    with pytest.raises(RequestError):
        ConstraintCompiler(BYTES).start(
            Lark(f"%import {first}.x\nstart: x", imports=tuple(imports.items()))
        )


_MUTUAL = r"""
start: (B | A | v | A v) A B t
t: (A | t | | v | start | w) (A | u)
u: B w | w w | A A start t
v: u w u | t B | start | start w B
w: (w | start | B A) (v | w | t) A+
A: /(a|ab)(c|bcd)?/
B: /\w/
%ignore /_/
"""
"""Each of the rules may begin with most of the others, so a text can be read in very many ways."""


def test_joining_what_may_follow_is_paid_for_by_its_size() -> None:
    machine = GrammarMachine(network_from_grammar(lower_lark(_MUTUAL)), RecognizerLimits())
    with pytest.raises(LimitExceededError), limited_work(2_000_000, "reading"):
        machine.advance(machine.start, b"bb" + b"aaa0aa0" * 6)


def test_many_schemas_in_a_grammar_take_no_longer_each() -> None:
    rules = [f'r{n}: "{n}" %json {{"const": {n}}}' for n in range(800)]
    text = "\n".join([f"start: {' | '.join(f'r{n}' for n in range(800))}", *rules])
    with limited_work(ConstraintLimits().compile_work):
        assert len(lower_composition(Lark(text)).holes) == 800


def test_parameters_are_looked_up_in_no_time() -> None:
    names = [f"x{n}" for n in range(14_000)]
    text = f"start: /a/\na{{{','.join(names)}}}: {' '.join(reversed(names))}"
    before = time.process_time()
    lower_lark(text)
    assert time.process_time() - before < 3  # one by one it takes ten times as long


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('start: start start | "a"', "a" * 2_000),
        ('start: e\ne: e e | e e e | "(" e ")" | "a"', "(aa" * 300),
        ('start: s\ns: "a" s "b" | "a" s "c" | s s | "a"', "a" * 300),
        ('start: "a" start "a" | "b" start "b" | "a"', "ab" * 500),
        (read_grammar("arithmetic").text, "(" * 5_000),
        (read_grammar("json").text, "[" * 5_000),
    ],
)
def test_every_byte_takes_bounded_work_and_leaves_a_way_out(text: str, document: str) -> None:
    machine = GrammarMachine(network_from_grammar(lower_lark(text)))
    state = machine.start
    for byte in document.encode():
        with limited_work(20_000):
            reached = machine.step(state, byte)
        assert reached is not None
        state = reached
    ended = machine.advance(state, machine.shortest_completion(state))
    assert ended is not None
    assert machine.is_accepting(ended)


def test_states_do_not_grow_with_the_text() -> None:
    machine = GrammarMachine(network_from_grammar(lower_lark(read_grammar("arithmetic").text)))
    piece = b"1 + f(2 * x, -y) / "
    state = machine.advance(machine.start, piece * 3)
    sizes = len(machine.stacks), len(machine.continuations), machine.table.num_rows
    assert state is not None
    assert machine.advance(state, piece * 500) == state
    assert sizes == (len(machine.stacks), len(machine.continuations), machine.table.num_rows)


def test_a_full_machine_still_ends_its_text() -> None:
    network = network_from_grammar(lower_lark(read_grammar("json").text))
    machine = GrammarMachine(network, RecognizerLimits(max_stacks=50))
    state, depth = machine.start, 0
    while machine.parts.fullness < 0.9:
        reached = machine.step(state, ord("["))
        assert reached is not None
        state, depth = reached, depth + 1
    with pytest.raises(LimitExceededError, match="more than 50"):
        machine.advance(state, b"[" * 50)
    assert machine.shortest_completion(state) == b"]" * depth


def test_work_is_limited_while_an_answer_is_written() -> None:
    limits = ConstraintLimits(step_work=1)
    matcher = ConstraintCompiler(BYTES, limits).start(Lark(read_grammar("json").text))
    with pytest.raises(LimitExceededError):
        matcher.mask()


def test_a_pattern_is_a_constraint() -> None:
    compiler = ConstraintCompiler(BYTES)
    for constraint, text in [
        (Regex(r"^\d{3}-(?i:ab)$"), b"123-aB"),
        (Regex("[^é]+?é"), "xé".encode()),
        (Regex(r"\p{L}+", "ecma"), "äß".encode()),
    ]:
        matcher = compiler.start(constraint)
        for byte in text:
            matcher = matcher.advance(BYTES.byte_ids[byte])
        assert matcher.is_accepting
    with pytest.raises(LimitExceededError):
        compiler.start(Regex("(a{1,1000}){1,1000}"))
