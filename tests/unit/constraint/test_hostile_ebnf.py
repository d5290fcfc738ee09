"""EBNF made to take for ever: refused, or accepted, within counted bounds."""

from __future__ import annotations

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import LimitExceededError
from guided.spec import Ebnf
from tests.kit.walks import BYTES


def _doubling(count: int) -> str:
    rules = "\n".join(f"r{number} ::= r{number + 1} r{number + 1}" for number in range(count))
    return f'root ::= r0\n{rules}\nr{count} ::= "z"'


_REFUSED = {
    "repeats of repeats": 'root ::= ("a"{1,1000}){1,1000}',
    "bounds of bounds": 'root ::= "a"' + "{2}" * 99,
    "a large bound": 'root ::= "a"{1000000}',
    "alternatives": "root ::= " + " | ".join(f'"w{number}"' for number in range(60_000)),
    "a long literal": 'root ::= "' + "ab" * 499_000 + '"',
    "a long class": "root ::= [" + "ab" * 499_000 + "]",
    "many groups": "root ::= " + "(" * 100_000,
    "a megabyte of rules": 'r ::= "a" r\n' * 90_000,
    "doubled rules": _doubling(60),
    "subsets": 'root ::= [ab]* "a" [ab]{20}',
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_too_large_is_refused(name: str) -> None:
    with pytest.raises(LimitExceededError) as caught:
        ConstraintCompiler(BYTES).start(Ebnf(_REFUSED[name]))
    assert caught.value.limit


@pytest.mark.parametrize(
    "text",
    [
        'root ::= root root | a | ""\na ::= root | a',
        "root ::= " + "(" * 99 + '"a"' + ")" * 99,
        'root ::= "a"' + "+" * 9,
        'root ::= "a"\n'
        + "\n".join(f'r{n} ::= "a" r{n + 1}' for n in range(3_000))
        + "\nr3000 ::=",
    ],
)
def test_what_only_looks_large_is_taken(text: str) -> None:
    matcher = ConstraintCompiler(BYTES).start(Ebnf(text))
    matcher.mask()
    assert matcher.shortest_completion() is not None
