"""Strict forced runs: tokens that are each the only one in their mask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guided.constraint import ConstraintCompiler
from guided.spec import Forcing, JsonSchema, Regex
from tests.kit.tiny_vocabulary import tiny_vocabulary

_BYTES = tiny_vocabulary(())


@pytest.mark.parametrize(
    ("constraint", "run"),
    [
        (Regex("abc"), b"abc"),
        (Regex("ab[cd]e"), b"ab"),
        (Regex("abc*"), b"ab"),
        # Without an end token, only "a" may ever follow; the run stops where the answer may end.
        (Regex("a*"), b""),
        (Regex("xa*"), b"x"),
        (Regex("(ab)*"), b""),
        (JsonSchema('{"const": {"a": null}}'), b'{"a":null}'),
    ],
)
def test_a_strict_run_stops_where_the_answer_may_end(
    constraint: Regex | JsonSchema, run: bytes
) -> None:
    for vocabulary in (_BYTES, replace(_BYTES, end_ids=frozenset())):
        start = ConstraintCompiler(vocabulary).compile(constraint).start()
        assert vocabulary.decode(start.forced_run(Forcing.STRICT)) == run
