"""The scores of given texts are the sums that the bare model gives to their tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import guided
from guided.client.scores import score_requests
from guided.spec import FinishReason
from tests.engine.test_beams import VOCABULARY, exact_engine, exact_model
from tests.engine.tiny_models import answers

TEXTS = ["red", " ab", "é", "", "no more than that " * 8]


def logprob_of(prompt: str, text: str) -> float:
    """The sum of the log-probabilities of a text's tokens, from one pass of the model."""
    before, tokens = ([*VOCABULARY.spell(each)] for each in (prompt, text))
    model: Any = exact_model()
    with torch.inference_mode():
        logits = model(torch.tensor([before + tokens])).logits[0]
    rows = torch.log_softmax(logits, dim=-1)[len(before) - 1 : -1]
    return sum(float(row[token]) for row, token in zip(rows, tokens, strict=True))


def test_scores_are_sums_of_the_models_own_log_probabilities() -> None:
    asked = score_requests(guided.RawPrompt("who?"), TEXTS, {})
    found = answers(exact_engine(), {each.grammar.options[0]: each.specification for each in asked})
    for text in TEXTS:
        (candidate,) = found[text].candidates
        assert candidate.text == text
        assert [*candidate.tokens] == [*VOCABULARY.spell(text)]
        assert candidate.finish_reason is FinishReason.COMPLETE
        assert candidate.score == pytest.approx(logprob_of("who?", text), abs=1e-6)


def test_one_call_of_the_model_reads_a_text() -> None:
    (request,) = score_requests(guided.RawPrompt("who?"), ["red, abc"], {})
    found = answers(exact_engine(), {"red": request.specification})["red"]
    assert len(found.candidates[0].tokens) > 3
    assert found.usage.model_calls == 1
