"""Bearer tokens: how they are made, sent and hashed."""

from __future__ import annotations

from typing import Any

import pytest

from guided.bearer import bearer_of, checked_token, new_token, token_hash, token_of
from guided.errors import RequestError


def test_tokens_are_all_different_and_fit_a_header() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    for token in tokens:
        assert checked_token(token) == token
        assert len(token) == len("guided_") + 43
        assert token_of(bearer_of(token)) == token


def test_a_hash_is_sha256() -> None:
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        (
            "x" * 40 + "\n",
            "the token begins or ends with white space, such as the line break of a file; pass "
            "token.strip()",
        ),
        ("geheim é" * 8, "the token has characters other than letters"),
        ("", "the token has characters other"),
        (None, "the token has characters other"),
        ("hunter2", "the token has 7 characters, and one of fewer than 32 can be guessed"),
    ],
)
def test_a_token_that_is_none_is_refused_without_being_quoted(token: Any, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint.replace("+", r"\+")) as caught:
        checked_token(token)
    assert caught.value.field == "token"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("Basic abc", None),
        ("Bearer ", None),
        ("abc", None),
        ("", None),
    ],
)
def test_a_header_is_read_as_rfc_6750_has_it(header: str, token: str | None) -> None:
    assert token_of(header) == token
