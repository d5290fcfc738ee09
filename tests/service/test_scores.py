"""Scores of given texts by both clients, from a server of a tiny model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

import guided
from guided import testing
from guided.client import AsyncClient, Client
from guided.client.scores import MAX_BYTES, MAX_CHARACTERS, score_requests
from guided.constraint import ConstraintCompiler
from guided.errors import LimitExceededError, RequestError
from guided.spec import Choice
from tests.kit.pages import run_blocks
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.service.http_server import HttpServer

TEXTS = ["Oslo", "Rome", "", "Hé, <|im_end|> 😀"]
TALK = [guided.Message("system", "Be brief."), guided.Message("user", "Where?")]


@pytest.fixture
def client(thinker: HttpServer) -> Iterator[Client]:
    with Client(thinker.process.address) as connected:
        yield connected


def test_texts_have_scores_in_their_order(client: Client) -> None:
    scores = client.score(TALK, TEXTS)
    assert [each.text for each in scores] == TEXTS
    for each in scores:
        if not each.text:
            assert (each.logprob, each.num_tokens) == (0, 0)
            continue
        spelled = client.tokenize(guided.RawPrompt(each.text), allow_special_tokens=False)
        assert each.num_tokens == len(spelled.tokens)
        assert each.logprob < 0
    assert client.score(TALK, iter(TEXTS)) == scores
    assert client.score(TALK, []) == []


def test_the_asyncio_client_has_the_same(thinker: HttpServer, client: Client) -> None:
    async def ask() -> list[guided.Score]:
        async with AsyncClient(thinker.process.address) as connected:
            return await connected.score(TALK, TEXTS, priority=1)

    assert asyncio.run(ask()) == client.score(TALK, TEXTS)


def test_the_parts_of_a_text_score_what_the_text_does(client: Client) -> None:
    """Where the tokenizer splits it there: a sum of log-probabilities."""
    prompt = guided.RawPrompt("The sky")
    whole, first = client.score(prompt, [" is blue", " is"])
    (rest,) = client.score(guided.RawPrompt("The sky is"), [" blue"])
    assert whole.num_tokens == first.num_tokens + rest.num_tokens
    assert whole.logprob == pytest.approx(first.logprob + rest.logprob, rel=1e-4)


def test_the_page_shows_code_that_runs(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_blocks("docs/candidates.md", {"client": client, "guided": guided})
    best = max(names["scores"], key=lambda score: score.logprob)
    assert capsys.readouterr().out == f"{best.text} {best.logprob / best.num_tokens}\n"


@pytest.mark.parametrize(
    ("texts", "options", "field", "message"),
    [
        (
            "Oslo",
            {},
            "texts",
            "texts is 'Oslo', which is not a collection of strings; pass a list of strings",
        ),
        (5, {}, "texts", "texts is 5, which is not a collection of strings; pass a list of"),
        (["a", b"b"], {}, "texts[1]", "texts[1] is b'b', which is not a string"),
        (
            ["a"],
            {"temperature": 1.0},
            "temperature",
            "texts are scored by the model alone, so temperature does not apply; leave it out; "
            "there is adapter, allow_special_tokens, cache_salt, deadline, model, priority",
        ),
        (
            ["a", "b" * 50_000],
            {},
            "texts[1]",
            "texts[1] has 50,000 characters, and a text of at most 49,999 is scored at once; after "
            "a guided.RawPrompt score it in parts, each with the parts before it in the prompt, "
            "and add up their logprob",
        ),
        (["é" * 29_999], {}, "texts[0]", "texts[0] has 59,998 bytes, and a text of at most 59,997"),
        (["a"], {"request_id": "x"}, "request_id", "texts are scored by the model alone, so"),
        (["a"], {"priority": 1000}, "priority", "priority 1000 is "),
    ],
)
def test_what_cannot_be_scored_is_refused(
    texts: Any, options: dict[str, Any], field: str, message: str
) -> None:
    with Client("localhost:1") as client, pytest.raises(RequestError) as refused:
        client.score("Where?", texts, **options)
    assert str(refused.value).startswith(message)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "text", ["a" * 49_999, "é" * 29_998, "€" * 19_999, "a" * 40_001 + "é" * 9_998]
)
def test_a_text_of_the_greatest_length_is_one_for_the_compiler_too(text: str) -> None:
    """And one that is longer is not: what is refused could not be scored."""
    assert len(text) == MAX_CHARACTERS or MAX_BYTES - len(text.encode()) < 3
    compiler = ConstraintCompiler(tiny_vocabulary(()))
    (request,) = score_requests("Where?", [text], {})
    compiler.start(request.grammar)
    with pytest.raises(LimitExceededError, match="states"):
        compiler.start(Choice([f"{text}€"]))


def test_an_unknown_option_is_told_as_elsewhere() -> None:
    with Client("localhost:1") as client, pytest.raises(TypeError, match="there is no option"):
        cast("Any", client).score("Where?", ["a"], prioritty=1)


def test_an_error_of_one_text_is_that_of_the_call(client: Client) -> None:
    with pytest.raises(guided.LimitExceededError, match="leaves room for"):
        client.score("Where?", ["a", "word " * 5_000])


def test_a_server_without_a_model_refuses_it() -> None:
    with (
        testing.Server() as server,
        Client(server.address) as client,
        pytest.raises(RequestError, match="beams needs a model"),
    ):
        client.score("Where?", ["a"])


def test_no_score_is_that_of_a_part() -> None:
    """What a deadline closes would have the score of the tokens before."""
    (request,) = score_requests("Say:", ["a text"], {"deadline": 0.5})
    assert request.specification.on_incomplete is guided.OnIncomplete.ERROR
