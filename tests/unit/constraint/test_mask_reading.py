"""The mask after some tokens, compared with trying one token after another."""

from __future__ import annotations

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.constraint.mask_reading import MAX_SHOWN, describe_mask
from guided.errors import RequestError, TokenRejectedError
from guided.masks.matcher import Matcher
from guided.spec import Regex, Structure, TokenId
from tests.kit.tokenizers import real_vocabulary

VOCABULARY = real_vocabulary("smollm2")
DATE = Regex("(19|20)[0-9]{2}-[0-9]{2}")


def start(constraint: Structure) -> Matcher:
    return ConstraintCompiler(VOCABULARY).start(constraint)


def is_allowed(matcher: Matcher, token: TokenId) -> bool:
    try:
        matcher.advance(token)
    except TokenRejectedError:
        return False
    return True


@pytest.mark.parametrize("text", ["", "19", "1987-0"])
def test_the_mask_holds_what_may_follow(text: str) -> None:
    matcher, tokens = start(DATE), [TokenId(token) for token in VOCABULARY.spell(text)]
    told = describe_mask(matcher, tokens, VOCABULARY)
    for token in tokens:
        matcher = matcher.advance(token)
    allowed = [n for n in range(len(VOCABULARY)) if is_allowed(matcher, TokenId(n))]
    assert told.allowed == len(allowed)
    assert told.allowed + told.forbidden == len(VOCABULARY)
    assert [each.token for each in told.first] == allowed[:MAX_SHOWN]
    assert [each.text for each in told.first] == [VOCABULARY.token_bytes[n] for n in allowed]
    assert not told.may_end


def test_the_end_and_what_is_certain_are_told() -> None:
    forced = describe_mask(start(Regex("lighthouse")), (), VOCABULARY)
    assert (forced.forced, forced.may_end) == (b"lighthouse", False)
    spelled = [TokenId(token) for token in VOCABULARY.spell("lighthouse")]
    ended = describe_mask(start(Regex("lighthouse")), spelled, VOCABULARY)
    assert (ended.forced, ended.may_end) == (b"", True)
    assert {each.token for each in ended.first} == VOCABULARY.end_ids


def test_what_is_listed_is_bounded() -> None:
    told = describe_mask(start(Regex(".*")), (), VOCABULARY)
    assert told.allowed > len(told.first) == MAX_SHOWN


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ((TokenId(999_999),), "tokens[0] is 999999, and the vocabulary has"),
        ((*VOCABULARY.spell("1"), TokenId(0)), "tokens[1]: token 0 (a special token) is not"),
    ],
)
def test_tokens_that_are_none_are_refused(tokens: tuple[TokenId, ...], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        describe_mask(start(DATE), tokens, VOCABULARY)
    assert str(caught.value).startswith(message)
    assert caught.value.field == "tokens"
