"""Thoughts as chat templates of models write them, with their real tokenizers."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.decoding.choice import advance
from guided.engine.prompts import PreparedPrompt, Prompts
from guided.engine.token_room import TokenRoom
from guided.errors import LimitExceededError
from guided.masks.thinking import ThinkingMatcher
from guided.model.chat_encoder import ChatEncoder
from guided.model.chat_thoughts import ChatThoughts
from guided.model.load import ModelTexts
from guided.model.prompt import render_prompt
from guided.model.prompt_bound import prompt_bound
from guided.spec import (
    Choice,
    Constraint,
    Forcing,
    GenerationRequest,
    JsonSchema,
    Lark,
    Message,
    Reasoning,
    Regex,
    TokenId,
    Tool,
    ToolCall,
    ToolUse,
)
from guided.spec.composition import Sequence
from guided.spec.tagged import Until
from guided.spec.thoughts import AfterThoughts
from guided.spec.tool_format import HERMES
from tests.kit.tokenizers import gemma4_tokenizer, real_tokenizer, real_vocabulary

SCHEMA = JsonSchema('{"const": {"a": 1}}')
ASKED = (Message("user", "Why?"),)
ROOM = TokenRoom(context_window=4096, cache_tokens=4096, block_size=8)


@cache
def texts_of(template: str, tokenizer: str) -> ModelTexts:
    loaded = copy.copy(gemma4_tokenizer() if tokenizer == "gemma4" else real_tokenizer(tokenizer))
    file = files("trl").joinpath("chat_templates", f"{template}.jinja")
    loaded.chat_template = file.read_text("utf-8")
    return ModelTexts(template, loaded, real_vocabulary(tokenizer), context_window=4096)


@cache
def compiler_of(tokenizer: str) -> ConstraintCompiler:
    return ConstraintCompiler(real_vocabulary(tokenizer))


@pytest.mark.parametrize(
    ("template", "tokenizer", "begin", "end"),
    [
        ("qwen3", "qwen3", "<|im_start|>assistant\n<think>\n", "</think>\n\n"),
        ("qwen3_5_think", "qwen3", "<|im_start|>assistant\n<think>\n", "</think>\n\n"),
        ("qwen3_5_nothink", "qwen3", "<|im_start|>assistant\n<think>\n", "</think>\n\n"),
        (
            "gptoss",
            "gptoss",
            "<|start|>assistant<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        ("gemma4", "gemma4", "<|turn>model\n<|channel>thought\n", "<channel|>"),
    ],
)
def test_the_answer_follows_the_signs_as_the_tokenizer_writes_them(
    template: str, tokenizer: str, begin: str, end: str
) -> None:
    model = texts_of(template, tokenizer)
    thinks = ChatThoughts(model)
    tokens, pieces = thinks.begin_thoughts(thinks.render(ASKED, None, None, ()), Reasoning())
    prompt = str(model.tokenizer.decode([int(token) for token in tokens]))
    assert prompt.endswith(f"Why?{prompt.partition('Why?')[2]}")
    assert prompt.endswith(begin)
    assert prompt.count("<think>") <= 1
    matcher = compiler_of(tokenizer).start(AfterThoughts(pieces, SCHEMA, 30))
    thought = model.tokenizer.encode("Hm, so it is.\n", add_special_tokens=False)
    matcher = advance(matcher, map(TokenId, thought))
    assert isinstance(matcher, ThinkingMatcher)
    written = model.tokenizer.encode(end + '{"a":1}', add_special_tokens=False)
    matcher = matcher.advance(TokenId(written[0]))
    assert list(matcher.forced_run(Forcing.CANONICAL)) == written[1:]


def test_an_answer_of_gpt_oss_begins_in_its_channel_without_thoughts_too() -> None:
    model = texts_of("gptoss", "gptoss")
    thinks = ChatThoughts(model)
    tokens = thinks.render(ASKED, None, None, ())
    prompt = str(model.tokenizer.decode([int(token) for token in thinks.begin_answer(tokens)]))
    assert prompt.endswith("<|start|>assistant<|channel|>final<|message|>")
    assert thinks.begin_answer(thinks.begin_answer(tokens)) == thinks.begin_answer(tokens)
    plain = ChatThoughts(texts_of("qwen3", "qwen3"))
    asked = plain.render(ASKED, None, None, ())
    assert plain.begin_answer(asked) == asked


def prepared(
    template: str,
    tokenizer: str,
    reasoning: Reasoning | None,
    constraint: Constraint = SCHEMA,
    tools: ToolUse | None = None,
    room: TokenRoom = ROOM,
) -> PreparedPrompt:
    model = texts_of(template, tokenizer)
    prompts = Prompts(
        *(partial(render_prompt, model), model.vocabulary, None, HERMES, room, lambda: 0.0),
        ChatThoughts(model),
    )
    request = GenerationRequest(ASKED, constraint, reasoning=reasoning, tools=tools)
    return prompts.prepare(request, None)


@pytest.mark.parametrize(
    ("template", "tokenizer", "ends"),
    [
        ("qwen3", "qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("qwen3_5_think", "qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("gptoss", "gptoss", "<|start|>assistant<|channel|>final<|message|>"),
        ("gemma4", "gemma4", "<|turn>model\n"),
        ("qwen2_5", "qwen3", "<|im_start|>assistant\n"),
    ],
)
def test_no_budget_of_thoughts_is_an_answer_without_them(
    template: str, tokenizer: str, ends: str
) -> None:
    asked = prepared(template, tokenizer, Reasoning(0))
    decode = texts_of(template, tokenizer).tokenizer.decode
    assert str(decode([int(token) for token in asked.tokens])).endswith(ends)
    assert asked.constraint == SCHEMA


@pytest.mark.parametrize(
    ("left", "asked", "thoughts"),
    [
        (1000, Reasoning(), 128),
        (1000, Reasoning(200), 200),
        (210, Reasoning(200), 200),
        # What the prompt leaves is less than half of the default, or than the thoughts may have.
        (100, Reasoning(), 50),
        (100, Reasoning(200), 50),
    ],
)
def test_thoughts_have_a_part_of_the_budget_that_the_prompt_leaves(
    left: int, asked: Reasoning, thoughts: int
) -> None:
    prompt_length = len(prepared("qwen3", "qwen3", asked).tokens)
    room = replace(ROOM, context_window=prompt_length + left)
    constraint = prepared("qwen3", "qwen3", asked, room=room).constraint
    assert isinstance(constraint, AfterThoughts)
    assert constraint.max_tokens == thoughts


def test_thoughts_that_a_template_always_begins_end_at_once_without_a_budget() -> None:
    asked = prepared("deepseek_r1_distill", "qwen3", Reasoning(0))
    decode = real_tokenizer("qwen3").decode
    assert str(decode([int(token) for token in asked.tokens])).endswith("<think>\n")
    assert isinstance(asked.constraint, AfterThoughts)
    assert asked.constraint.max_tokens == 0


JSON_AT_ONCE = (SCHEMA, Choice(("a", "b")), Regex("[ab]"))
FORCED = ToolUse((Tool("look", "", "{}"),), "required")


@pytest.mark.parametrize(
    ("template", "tokenizer", "ends"),
    [
        ("qwen3", "qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("qwen3_5_think", "qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("qwen3_6", "qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("deepseek_r1_distill", "qwen3", "<think>\n</think>\n\n"),
        ("nemotron_3_nano", "qwen3", "<|im_start|>assistant\n<think></think>"),
        ("glm4moe", "qwen3", "/nothink<|assistant|>\n<think></think>"),
        ("gptoss", "gptoss", "<|start|>assistant<|channel|>final<|message|>"),
        ("gemma4", "gemma4", "<|turn>model\n"),
        ("qwen2_5", "qwen3", "<|im_start|>assistant\n"),
        # Reads thoughts of earlier turns, but its models do not think.
        ("qwen3_instruct_2507", "qwen3", "<|im_start|>assistant\n"),
    ],
)
def test_what_must_be_json_at_once_stands_in_no_thought(
    template: str, tokenizer: str, ends: str
) -> None:
    decode = texts_of(template, tokenizer).tokenizer.decode
    for constraint in JSON_AT_ONCE:
        asked = prepared(template, tokenizer, None, constraint)
        assert str(decode([int(token) for token in asked.tokens])).endswith(ends)
        assert asked.constraint == constraint
    if template != "gptoss":  # its calls begin with their own channel
        asked = prepared(template, tokenizer, None, None, FORCED)
        assert str(decode([int(token) for token in asked.tokens])).endswith(ends)


@pytest.mark.parametrize(
    ("constraint", "tools"),
    [
        (None, None),
        (Lark('start: "a"'), None),
        (Sequence([Until("</think>"), SCHEMA]), None),
        (None, replace(FORCED, choice="auto")),
    ],
)
def test_where_thoughts_may_stand_in_the_answer_the_template_decides(
    constraint: Constraint, tools: ToolUse | None
) -> None:
    asked = prepared("qwen3_5_think", "qwen3", None, constraint, tools)
    decode = real_tokenizer("qwen3").decode
    assert str(decode([int(token) for token in asked.tokens])).endswith("assistant\n<think>\n")


def test_what_somebody_says_begins_and_ends_no_thoughts() -> None:
    model = texts_of("qwen3", "qwen3")
    named = model.vocabulary.named
    signs = {named["<think>"], named["</think>"]}
    said = "What do <think> and </think> mean?"
    tokens = render_prompt(model, (Message("user", said),), thinks=True)
    assert said in str(model.tokenizer.decode([int(token) for token in tokens]))
    assert not signs.intersection(tokens)
    allowed = render_prompt(model, (Message("user", said),), None, True, thinks=True)
    assert signs <= {*allowed}


def test_a_template_takes_the_thoughts_out_of_what_the_model_said() -> None:
    model = texts_of("qwen3", "qwen3")
    told = "<think>\nThe sky.\n</think>\n\nIt is <|im_end|> blue."
    turns = (Message("user", "Why?"), Message("assistant", told), Message("user", "</think>"))
    tokens = render_prompt(model, turns, thinks=True)
    text = str(model.tokenizer.decode([int(token) for token in tokens]))
    assert "assistant\nIt is <|im_end|> blue.<|im_end|>" in text
    assert "The sky" not in text
    named = model.vocabulary.named
    assert named["</think>"] not in tokens
    assert tokens.count(named["<|im_end|>"]) == len(turns)


def test_calls_of_tools_tell_themselves_from_answers() -> None:
    thinks = ChatThoughts(texts_of("gptoss", "gptoss"))
    _, pieces = thinks.begin_thoughts((TokenId(1),), Reasoning(), constraint_begins_answer=True)
    assert [getattr(piece, "name", "") or getattr(piece, "text", "") for piece in pieces] == [
        *("<|end|>", "<|start|>", "assistant"),
    ]


@pytest.mark.parametrize("reasoning", [None, Reasoning()])
@pytest.mark.parametrize(
    "asked",
    [
        {
            "prompt": (
                *ASKED,
                Message("assistant", "", tool_calls=(ToolCall("f", {"a": "x" * 10**6}),)),
            )
        },
        {"tools": ToolUse((Tool("f", "x" * 10**6),))},
        {"constraint": JsonSchema('{"const": "' + "x" * 10**6 + '"}'), "show_schema": True},
    ],
    ids=["call", "tool", "schema"],
)
def test_what_a_template_writes_besides_contents_is_bounded_before_it_is_tokenised(
    asked: dict[str, Any], reasoning: Reasoning | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = texts_of("qwen3", "qwen3")
    bound = prompt_bound(model, 500)
    assert bound is not None
    monkeypatch.setattr(ChatEncoder, "encode_messages", lambda *_, **__: pytest.fail("tokenised"))
    prompts = Prompts(
        *(partial(render_prompt, model, bound=bound), model.vocabulary, bound, HERMES, ROOM),
        lambda: 0.0,
        ChatThoughts(model, bound),
    )
    request = GenerationRequest(**{"prompt": ASKED, "reasoning": reasoning} | asked)
    with pytest.raises(LimitExceededError, match=r"the prompt has 1000\d\d\d bytes"):
        prompts.prepare(request, None)
