"""Values of a document in pieces, compared with those of a parser of the whole document."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guided.client.growing_json import GrowingJson, Node, ValueEvent
from guided.errors import InternalServiceError, LimitExceededError

ODD_TEXTS = st.text(st.sampled_from('"\\/~nu0\n\x7fé語😀\ud83d\ude00 '), max_size=6)
ESCAPES_IN_TEXT = st.lists(
    st.sampled_from(["\\", "ud83d", "ude00", "u0041", "😀", '"']), max_size=6
)
"""Texts that contain the escapes of JSON, as source code does."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | ODD_TEXTS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | ODD_TEXTS, inner)
    ),
    max_leaves=12,
)
SPELLINGS = st.fixed_dictionaries(
    {"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 0, 3, "\t"])}
)


def values_in(value: Any, pointer: str = "") -> Iterator[ValueEvent]:
    """Every value within a value, in the order in which they end in its text."""
    if isinstance(value, dict):
        for name, member in value.items():
            escaped = name.replace("~", "~0").replace("/", "~1")
            yield from values_in(member, f"{pointer}/{escaped}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from values_in(item, f"{pointer}/{index}")
    yield ValueEvent(pointer, value)


def told(pieces: list[str]) -> list[ValueEvent]:
    document = GrowingJson()
    events = [event for piece in pieces for event in document.feed(piece)]
    return events + document.end()


@settings(max_examples=300, deadline=None)
@given(VALUES, SPELLINGS, st.data())
def test_a_document_cut_anywhere_tells_the_values_of_the_whole(
    value: Any, spelling: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value, **spelling)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    # Pointers and values as text, which distinguishes 1 from 1.0 and True.
    expected = [repr(event) for event in values_in(json.loads(text))]
    assert [repr(event) for event in told(pieces)] == expected
    assert [repr(event) for event in told([*text])] == expected


@settings(max_examples=100, deadline=None)
@given(VALUES, SPELLINGS)
def test_a_value_is_told_with_its_last_character_and_a_number_with_the_next(
    value: Any, spelling: dict[str, Any]
) -> None:
    text = json.dumps(value, **spelling)
    document = GrowingJson()
    for at, character in enumerate(text):
        for event in document.feed(character):
            end = at if _is_number(event.value) else at + 1
            assert any(
                _reads_as(text[start:end], event.value) for start in range(end - 1, -1, -1)
            ), (text, at, event)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reads_as(text: str, value: object) -> bool:
    try:
        return repr(json.loads(text)) == repr(value)
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("pieces", "events"),
    [
        (["12"], [("", 12)]),
        (["1", "2 "], [("", 12)]),
        (["[1", "2", ",3"], [("/0", 12)]),
        (['["\\', '""'], [("/0", '"')]),
        (['["\\ud83d', "\\u", "de00", '"]'], [("/0", "😀"), ("", ["😀"])]),
        (["tru"], []),
        (["-"], "json"),
        (['{"a":1,"a":', "2}"], [("/a", 1), ("/a", 2), ("", {"a": 2})]),
        (['{"a": {"b": "c'], []),
    ],
)
def test_what_is_complete(pieces: list[str], events: Any) -> None:
    if events == "json":
        with pytest.raises(InternalServiceError):
            told(pieces)
        return
    assert told(pieces) == [ValueEvent(*event) for event in events]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "from character 0 on: null is due"),
        ("{1}", "from character 1 on: a name is due"),
        ('{"a" 1}', "from character 5 on: ':' is due"),
        ("[1 2]", "from character 3 on: ',' is due"),
        ("[1}", "from character 2 on: ',' is due"),
        ("[,]", "from character 1 on: a value is due"),
        ("[1,]", "from character 3 on: a value is due"),
        ("{} x", "from character 3 on: something follows the document"),
        ("[01]", "from character 1 on: Extra data: line 1 column 2 (char 1)"),
        ('"\\x"', "from character 0 on: Invalid \\escape: line 1 column 2 (char 1)"),
        ('"\n"', "from character 0 on: Invalid control character at: line 1 column 2 (char 1)"),
        ("NaN", "from character 0 on: a value is due"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InternalServiceError) as caught:
        told([*text])
    assert str(caught.value) == f"the answer is not JSON {message}; report it, with the request"


def test_an_integer_that_python_does_not_read_is_no_fault_of_the_service() -> None:
    with pytest.raises(LimitExceededError) as caught:
        told(['{"a":[-', "1" * 5000, "]}"])
    assert (caught.value.limit, caught.value.pointer) == (4300, "/a/0")
    assert str(caught.value) == (
        "at /a/0: the answer has an integer of 5000 digits, and Python reads up to 4300; "
        "give it a maximum, or call sys.set_int_max_str_digits"
    )


@settings(max_examples=100, deadline=None)
@given(st.text() | ODD_TEXTS | ESCAPES_IN_TEXT.map("".join), st.booleans())
@example(r"\ud83d", False)
def test_the_beginning_of_a_string_is_a_beginning_of_its_text(text: str, ascii_only: bool) -> None:
    written = json.dumps(text, ensure_ascii=ascii_only)
    document = GrowingJson()
    whole = json.loads(written)
    seen = [""]
    for character in written[:-1]:
        document.feed(character)
        assert isinstance(document.root, Node)
        grown = document.growing_text(document.root)
        assert grown is not None
        assert whole.startswith(grown)
        assert len(grown) >= len(seen[-1])
        seen.append(grown)
        at_once = GrowingJson()
        at_once.feed(document.text)
        assert at_once.root is not None
        assert at_once.growing_text(at_once.root) == grown
    # All of it is known before the quote, except half of a pair whose other half might come.
    assert whole.removeprefix(seen[-1]) in ("", whole[-1:])


def test_a_long_string_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    loads = GrowingJson._loads

    def counting(document: GrowingJson, written: str) -> object:
        nonlocal decoded
        decoded += len(written)
        return loads(document, written)

    monkeypatch.setattr(GrowingJson, "_loads", counting)
    written = json.dumps("ab\n" * 2_000)
    document = GrowingJson()
    for at in range(0, len(written) - 4, 4):
        document.feed(written[at : at + 4])
        assert document.root is not None
        document.growing_text(document.root)
    assert decoded < 3 * len(written)


@pytest.mark.parametrize("begin", ['"', '["é",'])
def test_a_piece_is_added_without_copying_what_came_before(begin: str) -> None:
    document = GrowingJson()
    document.feed(begin)
    for _ in range(1_000):
        document.feed("1, " * 500)
    most_at_once = 0
    tracemalloc.start()
    try:
        document.feed("1, ")  # the trace begins with what is allocated from here on
        for _ in range(10):
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            document.feed("1, ")
            most_at_once = max(most_at_once, tracemalloc.get_traced_memory()[1] - held)
    finally:
        tracemalloc.stop()
    assert most_at_once < len(document.text) // 100


def test_many_values_below_a_long_name_do_not_keep_it_each() -> None:
    reader = GrowingJson()
    reader.feed('{"' + "n" * 20_000 + '":[')
    tracemalloc.start()
    for _ in range(2_000):
        assert len(reader.feed("1,")) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
