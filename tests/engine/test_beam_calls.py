"""Calls of tools in the answers of beams, and in answers that are cut short."""

from __future__ import annotations

from dataclasses import replace

from transformers import LlamaConfig

from guided.constraint import ConstraintCompiler
from guided.engine.engine import Engine
from guided.errors import IncompleteAnswerError
from guided.model.runner import ModelRunner
from guided.spec import (
    Beams,
    GenerationRequest,
    Message,
    OnIncomplete,
    TokenId,
    Tool,
    ToolUse,
)
from guided.spec.tool_format import MARK, MISTRAL
from tests.engine.tiny_models import answers, drain, from_config
from tests.kit.tiny_vocabulary import tiny_vocabulary

USE = ToolUse((Tool("f", "", '{"properties": {"a": {"enum": ["x"]}}}'),), "f")
ASKED = GenerationRequest((Message("user", "a"),), max_tokens=40, tools=USE)


def make_engine() -> Engine:
    vocabulary = tiny_vocabulary(special=MISTRAL.special_tokens)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=0,
        pad_token_id=0,
    )
    return Engine(
        model_name="tiny",
        runner=ModelRunner(from_config(config), vocabulary_size=len(vocabulary)),
        vocabulary=vocabulary,
        context_window=128,
        start=ConstraintCompiler(vocabulary).start,
        render=lambda *_: (TokenId(2),),
        block_size=4,
        tool_format=MISTRAL,
    )


def test_calls_of_tools_are_marked_in_the_answers_of_beams() -> None:
    """As in other answers, where a call is read by the marks of its special tokens."""
    found = answers(make_engine(), {"beams": replace(ASKED, beams=Beams(2)), "drawn": ASKED})
    begun = MISTRAL.header("f")
    assert [result.text[: len(begun)] for result in found.values()] == [begun, begun]


def test_an_error_has_the_text_of_a_call_without_marks() -> None:
    schema = '{"properties": {"a": {"type": "string", "minLength": 30}}, "required": ["a"]}'
    written = ToolUse((Tool("f", "", schema),), "f")
    engine = make_engine()
    engine.submit(
        "r", replace(ASKED, tools=written, max_tokens=45, on_incomplete=OnIncomplete.ERROR)
    )
    outcome = drain(engine)["r"].outcome
    assert isinstance(outcome, IncompleteAnswerError)
    assert outcome.text.startswith("[TOOL_CALLS]f[ARGS]{")
    assert MARK not in outcome.text
