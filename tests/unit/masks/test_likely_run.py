"""A likely run spells all bytes that must follow, also those a forced run gives back."""

from __future__ import annotations

from guided.constraint import ConstraintCompiler, Matcher
from guided.spec import Forcing, JsonSchema, TokenId
from tests.kit.tiny_vocabulary import tiny_vocabulary

VOCABULARY = tiny_vocabulary()
TEXT = '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}'


def start() -> Matcher:
    return ConstraintCompiler(VOCABULARY).start(JsonSchema(TEXT))


def after(matcher: Matcher, tokens: tuple[TokenId, ...]) -> Matcher:
    for token in tokens:
        matcher = matcher.advance(token)
    return matcher


def spelled(tokens: tuple[TokenId, ...]) -> list[bytes | None]:
    return [VOCABULARY.token_bytes[token] for token in tokens]


def test_it_begins_with_the_forced_run_and_spells_the_end_that_this_gives_back() -> None:
    """An empty string would be `name":` and `""`, so the quote after the colon is not forced."""
    matcher = start()
    forced = matcher.forced_run(Forcing.CANONICAL)
    assert spelled(forced) == [b'{"', b'name":']
    assert spelled(matcher.likely_run()) == [b'{"', b'name":', b'"']
    behind = after(matcher, forced)
    assert behind.forced_run(Forcing.CANONICAL) == ()
    assert spelled(behind.likely_run()) == [b'"']


def test_it_is_the_same_whether_a_forced_run_was_asked_for_or_not() -> None:
    """Under strict forcing no run with the tokenizer's spelling is requested."""
    used = start()
    used.forced_run(Forcing.CANONICAL)
    assert start().likely_run() == used.likely_run() != ()


def test_it_is_empty_where_there_is_a_choice() -> None:
    matcher = start()
    inside = after(matcher, matcher.likely_run())
    assert inside.likely_run() == ()


def test_any_text_has_none() -> None:
    assert ConstraintCompiler(VOCABULARY).start(None).likely_run() == ()
