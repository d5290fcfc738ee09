"""Every grammar of the library, compared with its examples, with Lark, and with readers."""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable
from datetime import date, datetime, time
from urllib.parse import urlsplit
from xml.etree import ElementTree

import email_validator
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.lark import from_lark
from lark import Lark
from lark.exceptions import LarkError
from lark.load_grammar import GrammarBuilder
from markdown_it import MarkdownIt

import guided
from guided.errors import InvalidConstraintError
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.masks.binding import TokenBinding
from guided.masks.compiled import CompiledConstraint
from guided.masks.limits import ConstraintLimits
from guided.masks.mask_store import MaskStore
from guided.spec.library import LibraryGrammar, grammar_names, read_grammar
from tests.kit.effort import is_long
from tests.kit.grammars import accepted_by, mutated, random_text
from tests.kit.walks import PIECES, random_walk

_MUTANTS = 2
_LONGEST = 100 if is_long() else 60
"""The longest text for Lark, which may take a millisecond for each character."""
_WALKS = 40


@pytest.fixture(scope="module", params=grammar_names())
def grammar(request: pytest.FixtureRequest) -> LibraryGrammar:
    return read_grammar(request.param)


@pytest.fixture(scope="module")
def machine(grammar: LibraryGrammar) -> GrammarMachine:
    return GrammarMachine(network_from_grammar(lower_lark(grammar.text)))


@pytest.fixture(scope="module")
def lark(grammar: LibraryGrammar) -> Lark:
    return Lark(grammar.text, parser="earley", lexer="dynamic_complete", ambiguity="resolve")


def _parses(lark: Lark, text: str) -> bool:
    try:
        lark.parse(text)
    except LarkError:
        return False
    return True


def test_the_library_holds_these() -> None:
    assert grammar_names() == (
        "arithmetic",
        "csv",
        "email",
        "graphql_query",
        "iso8601",
        "json",
        "json_lines",
        "lark",
        "markdown_table",
        "python_expression",
        "semver",
        "sql_select",
        "url",
        "xml_fragment",
    )


def test_a_grammar_is_found_by_its_name() -> None:
    assert guided.Lark.named("json") == guided.Lark(read_grammar("json").text)
    with pytest.raises(InvalidConstraintError, match="no grammar 'sql_selct'; there is sql_select"):
        guided.Lark.named("sql_selct")


def test_it_says_what_it_is_for(grammar: LibraryGrammar) -> None:
    assert grammar.summary.endswith((".", ",")), grammar.summary


def test_examples_are_accepted_and_rejected_as_they_say(
    grammar: LibraryGrammar, machine: GrammarMachine
) -> None:
    assert grammar.accepted
    assert grammar.rejected
    for text in grammar.accepted:
        assert accepted_by(machine, text), text
    for text in grammar.rejected:
        assert not accepted_by(machine, text), text


def test_lark_agrees_on_examples_and_mutants(
    grammar: LibraryGrammar, machine: GrammarMachine, lark: Lark
) -> None:
    rng = random.Random(0)
    for example in (*grammar.accepted, *grammar.rejected):
        for text in (example, *(mutated(example, rng) for _ in range(_MUTANTS))):
            if len(text) <= _LONGEST:
                assert accepted_by(machine, text) == _parses(lark, text), text


@pytest.mark.parametrize("name", ["json", "semver"])
def test_what_the_rules_generate_is_accepted_at_every_prefix(name: str) -> None:
    """Hypothesis writes by the rules and patterns alone, whatever a scanner would read."""
    text = read_grammar(name).text
    machine = GrammarMachine(network_from_grammar(lower_lark(text)))
    texts = from_lark(Lark(text))

    @settings(
        max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(texts)
    def check(text: str) -> None:
        state = machine.start
        for byte in text.encode():
            reached = machine.step(state, byte)
            assert reached is not None, text
            state = reached
        assert machine.is_accepting(state), text

    check()


def test_lark_accepts_what_a_walk_writes(machine: GrammarMachine, lark: Lark) -> None:
    for seed in range(12):
        text = random_text(machine, random.Random(seed), steps=30)
        assert _parses(lark, text), text


def test_walks_over_masks_end(machine: GrammarMachine) -> None:
    """At every position a token or the end is allowed, and the shortest end is one."""
    limits = ConstraintLimits()
    binding = TokenBinding.of(PIECES)
    start = CompiledConstraint(machine, binding, MaskStore(2**20), limits).start()
    for seed in range(3):
        rng = random.Random(seed)
        random_walk(start, rng, steps=20)
        random_walk(start, rng, steps=0, budget=len(start.shortest_completion()) + 10)


def _is_moment(text: str) -> bool:
    # Python knows neither durations nor days of the year, no 53rd week in every year, no year 0.
    if re.search(r"[P/]|-\d{3}(\D|$)|W53|^0000", text):
        return True
    reads = (datetime.fromisoformat, date.fromisoformat, time.fromisoformat)
    return any(_reads(read, text) for read in reads)


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_address(text: str) -> bool:
    try:
        email_validator.validate_email(text, check_deliverability=False)
    except email_validator.EmailNotValidError as error:
        # Forbidden names, and lengths that have to add up, are beyond a grammar.
        return bool(
            re.search(
                r"special-use|too long|characters too many|invalid a-label|two letters", str(error)
            )
        )
    return True


def _is_sql(text: str) -> bool:
    try:
        sqlite3.connect(":memory:").execute(text)
    except sqlite3.OperationalError as error:
        return "syntax error" not in str(error) and "unrecognized" not in str(error)
    return True


def _is_table(text: str) -> bool:
    tokens = MarkdownIt().enable("table").parse(text)
    kinds = [token.type for token in tokens if token.level == 0]
    return kinds == ["table_open", "table_close"]


def _is_xml(text: str) -> bool:
    try:
        ElementTree.fromstring(f"<x>{text}</x>")  # noqa: S314 - a text of ours
    except ElementTree.ParseError as error:
        return "mismatched tag" in str(error) or "duplicate attribute" in str(error)
    return True


def _is_csv(text: str) -> bool:
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    return all(rows[0]) and {len(row) for row in rows} == {len(rows[0])}


def _is_lark(text: str) -> bool:
    try:
        GrammarBuilder().load_grammar(text, "<text>")
    except LarkError as error:
        return not isinstance(error.__context__, LarkError)
    except FileNotFoundError:
        return True  # its imports are not installed
    return True


_READERS: dict[str, Callable[[str], object]] = {
    "csv": _is_csv,
    "email": _is_address,
    "iso8601": _is_moment,
    "json": lambda text: bool(json.loads(text)) or True,
    "json_lines": lambda text: [json.loads(line) for line in text.removesuffix("\n").split("\n")],
    "lark": _is_lark,
    "markdown_table": _is_table,
    "python_expression": lambda text: ast.parse(text, mode="eval"),
    "sql_select": _is_sql,
    "url": lambda text: urlsplit(text).netloc,
    "xml_fragment": _is_xml,
}


@pytest.mark.parametrize("name", _READERS)
def test_who_reads_such_texts_takes_what_a_walk_writes(name: str) -> None:
    """Programs that do not use the grammar: Python's own and those of others."""
    grammar = read_grammar(name)
    machine = GrammarMachine(network_from_grammar(lower_lark(grammar.text)))
    walks = (random_text(machine, random.Random(seed), steps=40) for seed in range(_WALKS))
    for text in (*grammar.accepted, *walks):
        assert _READERS[name](text), text
