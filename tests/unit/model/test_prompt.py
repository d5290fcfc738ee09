"""The model's input for plain prompts and for messages in several chat templates."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import cast

import pytest
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from guided.errors import RequestError
from guided.model.load import LoadedModel
from guided.model.prompt import render_prompt
from guided.spec import Message
from tests.kit.tokenizers import real_tokenizer, real_vocabulary

SCHEMA = '{"type": "object"}'
NOTE = f"Answer with JSON that fits this schema:\n{SCHEMA}"
TURNS = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
REFUSES_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    + TURNS
)
DROPS_SYSTEM = TURNS.replace("messages", "messages if m['role'] != 'system'")
DROPS_ALL = "[nothing]"
SYSTEM, USER = Message("system", "Be brief."), Message("user", "Hello")


@cache
def model(name: str = "smollm2") -> LoadedModel:
    config = LlamaConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    return LoadedModel(
        name=name,
        module=cast("PreTrainedModel", LlamaForCausalLM(config)),
        tokenizer=real_tokenizer(name),
        vocabulary=real_vocabulary(name),
        context_window=99,
    )


def with_template(template: str | None) -> LoadedModel:
    tokenizer = copy.deepcopy(model().tokenizer)
    tokenizer.chat_template = template
    return replace(model(), tokenizer=tokenizer)


def read(loaded: LoadedModel, prompt: str | tuple[Message, ...], schema: str | None = None) -> str:
    text = loaded.tokenizer.decode([int(t) for t in render_prompt(loaded, prompt, schema)])
    assert isinstance(text, str)
    return text


def test_messages_go_through_the_chat_template() -> None:
    assert read(model(), (SYSTEM, USER, Message("assistant", "Hi"), USER)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
        "<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "messages", "schema", "text"),
    [
        (TURNS, (USER,), SCHEMA, f"[system] {NOTE}\n[user] Hello\n"),
        (TURNS, (SYSTEM, USER), SCHEMA, f"[system] Be brief.\n\n{NOTE}\n[user] Hello\n"),
        (REFUSES_SYSTEM, (USER,), SCHEMA, f"[user] {NOTE}\n\nHello\n"),
        (REFUSES_SYSTEM, (SYSTEM, USER), None, "[user] Be brief.\n\nHello\n"),
        (DROPS_SYSTEM, (USER,), SCHEMA, f"[user] {NOTE}\n\nHello\n"),
        (DROPS_SYSTEM, (SYSTEM, USER), SCHEMA, f"[user] Be brief.\n\n{NOTE}\n\nHello\n"),
        (DROPS_SYSTEM, (USER,), None, "[user] Hello\n"),
    ],
)
def test_where_a_schema_and_a_system_message_are_shown(
    template: str, messages: tuple[Message, ...], schema: str | None, text: str
) -> None:
    assert read(with_template(template), messages, schema) == text


@pytest.mark.parametrize(
    ("template", "messages", "message"),
    [
        (
            None,
            (USER,),
            "smollm2 has no chat template, so it takes no messages; pass a plain prompt, or use a "
            "model with a chat template",
        ),
        (
            "{{ raise_exception('roles must alternate') }}",
            (USER, USER),
            "the chat template of smollm2 refuses these messages: roles must alternate",
        ),
        (
            "{{ raise_exception('nothing suits') }}",
            (SYSTEM, USER),
            "the chat template of smollm2 refuses these messages: nothing suits",
        ),
        (
            REFUSES_SYSTEM,
            (SYSTEM,),
            "the chat template of smollm2 takes no system message, and no message of the user "
            "follows that could carry it; add a message with role 'user' after the system message",
        ),
        (
            DROPS_ALL,
            (SYSTEM, USER),
            "the chat template of smollm2 leaves out the system message",
        ),
    ],
)
def test_messages_that_cannot_be_shown_are_refused(
    template: str | None, messages: tuple[Message, ...], message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        render_prompt(with_template(template), messages)
    assert str(caught.value) == message
    assert caught.value.field == "messages"


def test_a_plain_prompt_is_read_as_it_is() -> None:
    assert read(model(), "<|im_start|>user\nHi") == "<|im_start|>user\nHi"


def test_a_plain_prompt_gets_the_token_that_begins_a_text() -> None:
    llama = model("llama2")
    assert render_prompt(llama, "Hi")[0] == llama.tokenizer.bos_token_id


def test_a_plain_prompt_shows_no_schema() -> None:
    with pytest.raises(RequestError) as caught:
        render_prompt(model(), "Hi", SCHEMA)
    assert caught.value.field == "show_schema"


@pytest.mark.parametrize(
    ("prompt", "schema"),
    [
        ("half \ud83d of it", None),
        ((Message("user", "half \ud83d of it"),), None),
        ((USER,), '{"const": "\ud83d"}'),
    ],
)
def test_half_of_a_character_is_refused(
    prompt: str | tuple[Message, ...], schema: str | None
) -> None:
    with pytest.raises(RequestError, match="holds a surrogate, which is half of a char") as caught:
        render_prompt(with_template(TURNS), prompt, schema)
    assert caught.value.field == "prompt"
