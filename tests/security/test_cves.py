"""Vulnerabilities of others, tried on us: each test is named after its CVE or advisory.

The hostile input goes to a server, or to the compiler where that shows time and memory better. The
server refuses it with an error that says why, or answers; its engine is the same one afterwards,
and its next caller is served.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import guided
import guided_service
from guided.client import Client
from guided.constraint import ConstraintCompiler
from guided.errors import (
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
from guided.masks.compiled import CompiledConstraint
from guided.spec import Choice, Ebnf, JsonSchema, Lark, Regex
from guided.spec.tagged import Tag, Tagged
from guided.v1 import generation_pb2 as pb
from tests.kit.walks import BYTES
from tests.service.server_process import ServerProcess

REFUSALS = (
    InvalidConstraintError,
    LimitExceededError,
    UnsatisfiableError,
    UnsupportedFeatureError,
)
SECONDS = 60.0
"""Far more than any input takes; with these faults it would take minutes, or never end."""


@contextmanager
def unharmed(server: ServerProcess, client: Client) -> Iterator[None]:
    """The engine is the same after the block, and serves."""
    engine, began = server.engine_process_id(), time.monotonic()
    yield
    assert client.generate("Still there?", grammar=Choice(("yes",)), max_tokens=9).text == "yes"
    assert server.engine_process_id() == engine
    assert time.monotonic() - began < SECONDS


def test_cve_2025_29770_constraints_fill_no_disk_and_choose_no_backend(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """An on-disk cache of grammars grew without a bound, and a request could turn it on."""
    folder = tiny_server.log.parent / "cache"

    def size() -> int:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    with unharmed(tiny_server, tiny):
        before = size()
        for number in range(40):
            assert tiny.generate("x", grammar=Choice((f"only {number}",)), max_tokens=20).text
        assert size() - before < 2**20
    names = {field.name for field in pb.GenerateRequest.DESCRIPTOR.fields}
    assert not {name for name in names if "backend" in name or "cache" in name} - {"cache_salt"}


def test_cve_2025_32381_few_of_many_constraints_are_kept() -> None:
    """Every grammar ever seen was kept in memory."""
    compiler = ConstraintCompiler(BYTES)

    def kept() -> int:
        gc.collect()
        return sum(type(found) is CompiledConstraint for found in gc.get_objects())

    before = kept()
    for number in range(compiler.limits.max_compiled + 40):
        compiler.compile(Choice((f"text {number}",)))
    assert kept() - before <= compiler.limits.max_compiled


@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": 1}',
        '{"type": "nothing"}',
        "{",
        "",
        '{"$ref": "#/nowhere"}',
        "{}]",
    ],
)
def test_cve_2025_48942_an_invalid_schema_is_its_senders_mistake(
    tiny: Client, tiny_server: ServerProcess, schema: str
) -> None:
    """An invalid JSON Schema ended the server."""
    with unharmed(tiny_server, tiny), pytest.raises(InvalidConstraintError):
        tiny.generate("x", schema=schema)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "*", "(?P<a", "\\", "a**"])
def test_cve_2025_48943_an_invalid_pattern_is_its_senders_mistake(
    tiny: Client, tiny_server: ServerProcess, pattern: str
) -> None:
    """An invalid regular expression ended the server."""
    with unharmed(tiny_server, tiny), pytest.raises(InvalidConstraintError):
        tiny.generate("x", grammar=Regex(pattern))


@pytest.mark.parametrize("parameter", [{"type": "strin"}, {"pattern": "[z-a]"}, {"type": 5}])
def test_cve_2025_48944_a_broken_tool_is_its_senders_mistake(
    tiny: Client, tiny_server: ServerProcess, parameter: dict[str, Any]
) -> None:
    """A wrong ``pattern`` or ``type`` in the parameters of a tool ended a worker."""
    schema = JsonSchema(json.dumps({"type": "object", "properties": {"city": parameter}}))
    tools = Tagged([Tag("<call>", schema, "</call>")], "<call>", calls="required")
    with unharmed(tiny_server, tiny), pytest.raises(InvalidConstraintError) as caught:
        tiny.generate("x", grammar=tools)
    assert "city" in str(caught.value)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*a){12}b"])
def test_cve_2025_48887_matching_never_goes_back(pattern: str) -> None:
    """Output was parsed by a pattern that takes exponential time. Ours are automata."""
    matcher = ConstraintCompiler(BYTES).start(Regex(pattern))
    began = time.process_time()
    for _ in range(2000):
        matcher = matcher.advance(BYTES.byte_ids[ord("a")])
    assert matcher.allows(BYTES.byte_ids[ord("b")])
    assert time.process_time() - began < 10


def test_cve_2025_9141_nothing_that_a_model_says_is_run() -> None:
    """The arguments of tools were read with ``eval``. There is no such call here at all."""
    calls = [
        f"{file}:{node.lineno}"
        for package in (guided, guided_service)
        for file in Path(str(package.__file__)).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("eval", "exec")
    ]
    assert calls == []


NO_TEXT = "no text satisfies the grammar"
ITSELF = "the schema refers to nothing but itself"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"grammar": Lark("start: start")}, NO_TEXT),
        ({"grammar": Lark("start: a\na: b\nb: a")}, NO_TEXT),
        ({"grammar": Ebnf("root ::= root")}, NO_TEXT),
        ({"grammar": Ebnf('root ::= root root | "a" | ""')}, None),
        ({"grammar": Ebnf('root ::= a\na ::= b a | ""\nb ::= a b | ""')}, None),
        ({"schema": {"$ref": "#"}}, ITSELF),
        ({"schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}}, ITSELF),
        ({"schema": {"allOf": [{"$ref": "#"}]}}, ITSELF),
        (
            {"schema": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}},
            "no document satisfies the schema",
        ),
        ({"schema": {"not": {"$ref": "#"}}}, ITSELF),
    ],
)
def test_cve_2025_57809_recursion_without_end_is_refused_or_harmless(
    tiny: Client, tiny_server: ServerProcess, options: dict[str, Any], told: str | None
) -> None:
    """Rules that call themselves for ever ran over the stack."""
    with unharmed(tiny_server, tiny):
        answered_or_refused(tiny, options, told)


def answered_or_refused(client: Client, options: dict[str, Any], told: str | None) -> None:
    """Assert that an answer comes, of letters a or in quotes, or else a refusal with this text."""
    with nullcontext() if told is None else pytest.raises(REFUSALS, match=re.escape(told)):
        answer = client.generate("x", max_tokens=32, **options)
        assert re.fullmatch('a*|".*"', answer.text, re.DOTALL)


def test_cve_2025_58446_a_huge_enum_takes_no_minutes(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """An enum of some thousand long values took minutes."""
    values = [f"a value that is not short, number {number:x}" for number in range(8000)]
    with unharmed(tiny_server, tiny):
        answer = tiny.generate("x", schema={"enum": values}, max_tokens=96)
    assert answer.value in values


@pytest.mark.parametrize(
    ("grammar", "told"),
    [
        (Regex("(" * 30_000 + "a" + ")" * 30_000), "has 60001 characters, more than 20000"),
        (Ebnf("root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000), "nests deeper than 100"),
        (Lark("start: " + "(" * 30_000 + '"a"' + ")" * 30_000), "nests deeper than 100"),
        (Lark("start: A\nA: /" + "(" * 30_000 + "a" + ")" * 30_000 + "/"), "more than 20000"),
    ],
    ids=["regex", "ebnf", "lark", "terminal"],
)
def test_cve_2026_25048_thousands_of_parentheses_are_refused(
    tiny: Client, tiny_server: ServerProcess, grammar: Regex | Ebnf | Lark, told: str
) -> None:
    """Thirty thousand nested parentheses ran over the stack."""
    with unharmed(tiny_server, tiny):
        answered_or_refused(tiny, {"grammar": grammar}, told)


FREE = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 30}},
    "required": ["a"],
}


def test_ghsa_55m4_88pw_2875_refused_drafts_reach_no_embedding(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """Drafted tokens that were refused were padded with -1, which indexed an embedding."""
    prompt = '{"a":"aaaa bbbb aaaa bbbb aaaa bbbb"} ' * 4
    with unharmed(tiny_server, tiny):
        usages = [
            tiny.generate(prompt, schema=FREE, max_tokens=60, temperature=2.0, seed=seed).usage
            for seed in range(8)
        ]
    assert sum(usage.drafted_tokens for usage in usages) > 0
    assert sum(usage.corrected_calls for usage in usages) > 0


def test_cve_2026_44223_penalties_beside_drafts_are_harmless(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """Penalties in a request with drafts ended the engine."""
    with unharmed(tiny_server, tiny):
        usage = tiny.generate(
            '{"a":"aaaa bbbb aaaa bbbb aaaa bbbb"} ' * 4,
            schema=FREE,
            max_tokens=60,
            repetition_penalty=1.5,
            presence_penalty=2.0,
            frequency_penalty=-2.0,
            no_repeat_ngram_size=3,
            logit_bias={5: 100.0},
        ).usage
    assert usage.sampled_tokens > 0


@pytest.mark.parametrize("option", ["n", "best_of"])
@pytest.mark.parametrize("number", [2**31 - 1, 10_000, -1, 0])
def test_cve_2026_34756_answers_to_a_request_are_few(
    tiny: Client, tiny_server: ServerProcess, option: str, number: int
) -> None:
    """A request for any number of answers took all memory."""
    options: dict[str, Any] = {option: number}
    with unharmed(tiny_server, tiny), pytest.raises(RequestError):
        tiny.generate("x", max_tokens=4, temperature=1.0, **options)


CHAIN = [*(f"r{n} ::= r{n + 1}" for n in range(20_000)), 'r20000 ::= "a"']


@pytest.mark.parametrize(
    ("grammar", "told"),
    [
        (Ebnf("\n".join(CHAIN), root="r0"), None),
        (Ebnf("root ::= " + "[" * 50_000), "the class has no closing ]"),
        (Ebnf('root ::= ("a"*)*'), None),
        (Ebnf('root ::= (("a"?){200}){200}'), "its automaton takes more than 50000000 steps"),
    ],
    ids=["chain", "brackets", "stars", "repeats"],
)
def test_cve_2026_2069_rules_expand_on_no_stack(
    tiny: Client, tiny_server: ServerProcess, grammar: Ebnf, told: str | None
) -> None:
    """The rules of a GBNF grammar were expanded by calls nested as deeply as the rules."""
    with unharmed(tiny_server, tiny):
        answered_or_refused(tiny, {"grammar": grammar}, told)


NESTED = "groups are nested deeper than 100"


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(" * 5000 + ")" * 5000, NESTED),
        ("(?:" * 5000, NESTED),
        ("[" * 5000, "wrong at character 0: unmatched '['"),
        ("a{1000}{1000}", "wrong at character 7: nothing to repeat"),
        ("(a{0,1000}){0,1000}", "needs more than 100000 states"),
        ("\\", "ends in the middle of a term"),
        ("^" * 5000, None),
        ("(?=a)*", "wrong at character 5: nothing to repeat"),
    ],
    ids=[str(number) for number in range(8)],
)
def test_the_pattern_of_a_string_ends_no_process(
    tiny: Client, tiny_server: ServerProcess, pattern: str, told: str | None
) -> None:
    """Without a CVE: the ``pattern`` of a string ran over the stack of its converter."""
    with unharmed(tiny_server, tiny):
        answered_or_refused(tiny, {"schema": {"type": "string", "pattern": pattern}}, told)
