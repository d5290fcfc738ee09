"""Real models in fp32 over several processes: the tokens of one. Only in the long form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from examples.demo_requests import REQUESTS
from guided.engine import load_engine
from guided.spec import Forcing, GenerationRequest, TokenId
from tests.engine.tiny_models import answers
from tests.kit.effort import is_long
from tests.kit.gemma3 import gemma3_270m

pytestmark = pytest.mark.timeout(1800)


def _tokens(model: str | None, way: str, ranks: int) -> dict[str, tuple[TokenId, ...]]:
    """The greedy answers to some requests of the demo, in one batch."""
    options: dict[str, Any] = {way: ranks}
    engine = load_engine(model, dtype="float32", device="cpu", cache_tokens=4096, **options)
    asked = {
        str(number): _as_plain_text(request.specification)
        for number, request in enumerate(REQUESTS[:6])
    }
    try:
        return {name: answer.tokens for name, answer in answers(engine, asked).items()}
    finally:
        engine.close()


def _as_plain_text(request: GenerationRequest) -> GenerationRequest:
    """A request for models without a chat template as well."""
    assert isinstance(request.prompt, tuple)
    prompt = "\n".join(message.content for message in request.prompt)
    return replace(request, prompt=prompt, show_schema=False, forcing=Forcing.STRICT)


@pytest.mark.parametrize("name", ["SmolLM2", "Gemma 3"])
def test_two_and_four_processes_give_the_tokens_of_one(name: str) -> None:
    """SmolLM2 on three as well, a number that divides its heads."""
    if not is_long():
        pytest.skip("real models over processes take minutes: `make test-long` tests them")
    model = None if name == "SmolLM2" else str(gemma3_270m())
    expected = _tokens(model, "tensor_parallel", 1)
    for ranks in (2, 3, 4) if model is None else (2, 4):
        assert _tokens(model, "tensor_parallel", ranks) == expected
    for ranks in (2, 4):
        assert _tokens(model, "pipeline_parallel", ranks) == expected
