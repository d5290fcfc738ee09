"""Adaptive thoughts of Anthropic's API are left out by a model that has none, whatever they ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from guided.spec import Reasoning
from guided.stats import ModelInfo
from guided.testing.walking_model import WalkingModel
from tests.service.test_prompts_together import Rig

ADAPTIVE = {"type": "adaptive"}
USER = {"role": "user", "content": "Hi"}
BEGUN: dict[str, Any] = {
    "messages": [USER, {"role": "assistant", "content": "An ans"}],
    "thinking": ADAPTIVE,
}
NO_TOKEN: dict[str, Any] = {
    "thinking": ADAPTIVE,
    "output_config": {"effort": "low"},
    "max_tokens": 4,
}
COMES_AFTER = (
    "a turn of the assistant that has begun comes after its thoughts; leave it out, or end with a "
    "turn of the user instead of messages[1]"
)


class Thinker(WalkingModel):
    """A model whose template knows thoughts."""

    @override
    def model(self, name: str = "") -> ModelInfo:
        return replace(super().model(name), thinks=True)


def posted(
    engine: WalkingModel, fields: dict[str, Any], path: str = "/v1/messages"
) -> tuple[int, Any]:
    rig = Rig(engine)
    body = {"model": "no model", "max_tokens": 100, "messages": [USER], **fields}
    if path.endswith("count_tokens"):
        del body["max_tokens"]
    status, told = rig.post(body, path)
    rig.readers.close()
    return status, told


@pytest.mark.parametrize("fields", [BEGUN, NO_TOKEN, {"thinking": ADAPTIVE}])
def test_a_model_without_thoughts_just_answers(fields: dict[str, Any]) -> None:
    engine = WalkingModel()
    status, _ = posted(engine, fields)
    assert status == 200
    assert [each.reasoning for each in engine.requests] == [Reasoning(0)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (BEGUN, COMES_AFTER),
        (
            NO_TOKEN,
            "output_config.effort 'low' leaves no token of 4 for thoughts; raise max_tokens, or "
            "leave thinking out",
        ),
    ],
)
def test_a_model_with_thoughts_refuses_those_that_have_no_place(
    fields: dict[str, Any], told: str
) -> None:
    status, body = posted(Thinker(), fields)
    assert status == 400
    assert told.encode() in body


def test_the_tokens_of_a_begun_turn_are_counted_by_a_model_without_thoughts() -> None:
    path = "/v1/messages/count_tokens"
    status, _ = posted(WalkingModel(), BEGUN, path)
    assert status == 200
    status, body = posted(Thinker(), BEGUN, path)
    assert status == 400
    assert COMES_AFTER.encode() in body


def test_bounded_thoughts_are_refused_beside_a_begun_turn_whatever_the_model() -> None:
    bounded = {"thinking": {"type": "enabled", "budget_tokens": 9}}
    status, body = posted(WalkingModel(), {**BEGUN, **bounded})
    assert status == 400
    assert COMES_AFTER.encode() in body
