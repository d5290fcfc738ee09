"""A translated pattern matches what pydantic's engines match."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
import warnings
from typing import Annotated, Any

import pytest
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from guided.constraint import ConstraintCompiler
from guided.errors import UnsatisfiableError
from guided.masks.matcher import Matcher
from guided.regular.patterns.properties import unicode_property
from guided.response_types import schema_of_adapter
from guided.response_types.character_sets import UNASSIGNED_IN_PYTHON
from guided.response_types.foreign_patterns import ecma_pattern
from guided.response_types.pattern_reader import ForeignPatternError
from guided.spec import JsonSchema, Regex, RegexDialect, Structure
from tests.kit.walks import BYTES, accepts

_COMPILER = ConstraintCompiler(BYTES)

# One or two characters of each category and all that any engine takes for white space.
CHARACTERS = sorted(
    {
        chr(code)
        for category in {unicodedata.category(chr(c)) for c in range(0x3000)}
        for code in [c for c in range(0x3000) if unicodedata.category(chr(c)) == category][:40:7]
        if category != "Cs"
    }
    | {chr(c) for c in range(sys.maxunicode) if chr(c).isspace()}
    | set("\ufeff\u0085\u180e\u24b6\U0001f130\u200c\u200d_-][&~^0aZé٣中kK\u212asSſßẞiIıİ•\n\b")
)

NARROWER = [r"(?i:\p{Lu})", r"(?i:[^\p{Lu}])"]
"""Patterns whose translation leaves out letters of the other case."""

PATTERNS = [
    r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"[\d_]", r"[^\d]", r"[\D]", r"[^\D]", r"[\w-]",
    r"[^\w]", r"[\W_]", r"[^\W]", r"[\s,]", r"[^\s]", r"[\S]", r"[^\S]", r"[^\W\d_]", r"\A.\z",
    r"[\]a]", r"[^]]", r"[]a]", r"\x41", r"\u00e9", r"\x{e9}", r"\U000000e9", r"\pL", r"[^\pN]",
    r"(?P<a>\d)", r"\b.", r".\b", r"\B.", r".\B", r"(?i:k)", r"(?i:[a-k])", r"(?i:[^ks])",
    r"(?i:ß)", r"(?i:\p{Lu})", r"(?i:[^\p{Lu}])", r"(?i:\w)", r"(?i:[^ı])", r"(?s:.)", "[\\w\\W]",
    r"[a-z&&[^aeiou]]", r"[\w--\d]", r"[a-z~~x-é]", r"[[:alpha:]é]", r"[^[:^punct:]]",
    r"[\p{L}&&[^a-z]]", r"\P{L}", r"\p{^Letter}", r"\x{1F130}", r"(?i:[[:upper:]])",
    r"[[:^space:]]", r"(?x: [a b] # c\n)", r"\pC", r"[^\pC]", r"(?a:\w)", r"(?a:\S)", r"(?ai:k)",
    r"\N{BULLET}", r"\101", r"[\b]", r"(?!\w).", r"(?!\d).", r"(?=\d).", r"(?<!a)\W", r"[a[]",
    r"(?!(?i:k)).", r"(?!\B).", r"(?!\b).", "(?m:^).(?m:$)", r"\b{start}.", r".\b{end}", r"\<.\>",
    r"\b{start-half}.\b{end-half}",
]  # fmt: skip


def _adapter(pattern: str, engine: Any) -> TypeAdapter[str]:
    config = ConfigDict(regex_engine=engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of sets whose meaning may change one day
        try:
            return TypeAdapter(Annotated[str, Field(pattern=pattern)], config=config)
        except Exception:
            pytest.skip("the engine does not know the pattern")


def _matches(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True


def _start(constraint: Structure) -> Matcher | None:
    """The start of its matcher; ``None`` if no text fits."""
    try:
        return _COMPILER.start(constraint)
    except UnsatisfiableError:
        return None


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("engine", ["rust-regex", "python-re"])
def test_the_translation_matches_what_the_engine_matches(pattern: str, engine: Any) -> None:
    """Except characters that only the engine knows, and digits of other scripts."""
    whole = f"^(?:{pattern})$"
    adapter = _adapter(whole, engine)
    translated = ecma_pattern(whole, is_python=engine == "python-re")
    start = _start(Regex(translated, RegexDialect.ECMA))
    matched, matching = 0, 0
    for character in CHARACTERS:
        found = start is not None and accepts(start, character.encode())
        expected = _matches(adapter, character)
        assert expected or not found, f"{character!r} matches {translated!r} only"
        is_known = unicodedata.category(character) not in ("Cn", "Nd") and pattern not in NARROWER
        assert found or not expected or not is_known, f"{character!r} does not match {translated!r}"
        matched += found
        matching += expected
    assert matched or not matching


TEXTS = [
    "", "foo", "FOO", "a foo b", "éfoo", "fooé", "foo٣", "foo_", "foo-foo", "a\nfoo", "foo\nb",
    "foo\n", "\u212a", "straße", "STRAẞE", "ſtrasse", "ab", "a b", "aab", "aaab", "x\u00a0y",
    "\u24b6", "É", "é",
]  # fmt: skip

LONGER = [
    r"\bfoo\b", r"\Bfoo", r"foo\B", r"^\B$", r"(?i)foo", r"^(?i)straße$", r"(?i-s:FOO)|x(?i)É",
    r"(?m)^foo$", r"^foo$", r"(?s)a.foo", r"a.foo", r"(?x) f o o # three", r"^a{2,}b$",
    r"^(?:a+)*b$", r"^(a|b){2}?$", r"\b\w+\b \b\w", r"^\w+$", r"(?<!\w)foo(?!\w)", r"^(?!.*foo)",
    r"^(?=.*o)\w+\Z", r"o(?!$)", r"^(?P<a>\w)(?#note)\w", r"^\S+$", r"(?U)^a+?b$", r"^a{,2}b$",
    r"^a{1", r"x\sy", r"\Aé\z", r"[\x{e9}É]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", LONGER)
@pytest.mark.parametrize("engine", ["rust-regex", "python-re"])
def test_longer_texts_match_alike(pattern: str, engine: Any) -> None:
    adapter = _adapter(pattern, engine)
    translated = ecma_pattern(pattern, is_python=engine == "python-re")
    start = _start(JsonSchema(json.dumps({"type": "string", "pattern": translated})))
    for text in TEXTS:
        expected = _matches(adapter, text)
        if text.endswith("\n") and engine == "python-re":
            continue  # to Python's engine a text also ends before it, against all intent
        spelled = json.dumps(text, ensure_ascii=False).encode()
        found = start is not None and accepts(start, spelled)
        assert found == expected, f"{text!r} and {translated!r}"


@pytest.mark.parametrize(
    ("rust", "ecma"),
    [
        (r"\p{greek}", r"[^\P{Script=Greek}…]"),
        (r"\p{sc=old italic}", r"[^\P{Script=Old_Italic}…]"),
        (r"\p{scx:Grek}", r"[^\P{Script_Extensions=Grek}…]"),
        (r"\p{l}\pN", r"[^\P{L}…][^\P{N}…]"),
        (r"\p{gc=uppercaseletter}", r"[^\P{Uppercase_Letter}…]"),
        (r"\p{alphabetic}", r"[^\P{Alphabetic}…]"),
        (r"\P{Lu}", r"[^\p{Lu}\p{Cn}…]"),
    ],
)
def test_properties_have_the_names_of_ecma(rust: str, ecma: str) -> None:
    """Without characters newer than an engine may know, which come after them."""
    assert ecma_pattern(rust).replace(UNASSIGNED_IN_PYTHON, "…") == ecma


def test_what_is_newer_than_the_oldest_engine_is_known() -> None:
    """Python's table is the oldest possible; characters that it lacks are in no set for certain."""
    older = {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"}
    here = unicode_property("Assigned")
    assert here is not None
    newer = {code for low, high in here.ranges for code in range(low, high + 1)} & older
    ranges = re.sub(r"u{(.{5})}", r"U000\1", UNASSIGNED_IN_PYTHON)
    pattern = re.compile(f"[{ranges}]")
    assert newer
    assert not [hex(code) for code in newer if not pattern.match(chr(code))]


def test_the_end_of_python_is_the_end_but_where_it_is_excluded() -> None:
    assert ecma_pattern("^a$", is_python=True) == "^a$"
    assert ecma_pattern("^a(?!$)", is_python=True) == r"^a(?!(?=\n?$))"


def test_flags_of_a_compiled_pattern_count() -> None:
    flags = re.IGNORECASE | re.VERBOSE | re.DOTALL | re.MULTILINE | re.ASCII
    assert ecma_pattern("^a . \\w$", is_python=True, flags=flags) == (
        r"(?<![^\n])[aA][\s\S][0-9A-Za-z_](?![^\n])"
    )
    schema = json.loads(schema_of_adapter(TypeAdapter(Annotated[str, _COMPILED])))
    assert schema["pattern"] == r"[eE]\$"


_COMPILED = Field(pattern=re.compile(r"e\$", re.IGNORECASE))


@pytest.mark.parametrize(
    ("pattern", "is_python", "what"),
    [
        (r"(?R)a", False, "the flag 'R'"),
        (r"(?-u:\w)", False, "the flag 'u'"),
        ("[[:letter:]]", False, "the class 'letter'"),
        (r"\p{Cn}", False, "characters that are not assigned"),
        (r"\b{middle}", False, r"'\b'"),
        (r"(a)\1", True, "a back reference"),
        (r"(?P<a>a)(?P=a)", True, "'(?P'"),
        (r"(?>a)", True, "'(?>'"),
        (r"a++", True, "a possessive quantifier"),
        (r"(?(1)a|b)", True, "'(?('"),
        ("[a", False, "an unfinished expression"),
        ("a\\", True, "an unfinished expression"),
        ("(a", True, "an unfinished group"),
        ("a)", True, "a ')' too many"),
    ],
)
def test_what_has_no_counterpart_is_refused(pattern: str, is_python: bool, what: str) -> None:
    with pytest.raises(ForeignPatternError) as caught:
        ecma_pattern(pattern, is_python=is_python)
    assert f"has {what} at character" in str(caught.value)
