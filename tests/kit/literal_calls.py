"""Calls with bare names: a vocabulary with their signs, random answers, and what is accepted."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from guided.constraint import ConstraintCompiler
from guided.constraint.machine import machine_of
from guided.machine.special_bytes import special_bytes
from guided.masks.mask import tokens_of
from guided.spec import GenerationRequest, Message, TokenId, Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import FUNCTION_GEMMA, GEMMA, ToolFormat, mark
from guided_service.call_reader import CallReader, reader_of
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

__all__ = ["FORMS", "is_let_stand", "lets_stand", "reader_for", "walked"]

FORMS: Final = {"gemma": GEMMA, "function_gemma": FUNCTION_GEMMA}
_SIGNS: Final = sorted({name for form in FORMS.values() for name in form.special_tokens})
_PIECES: Final = (*JSON_PIECES, b"city:", b",days:", b"Oslo", b"]}")
_VOCABULARY: Final = tiny_vocabulary(_PIECES, special=_SIGNS)
_COMPILER: Final = ConstraintCompiler(_VOCABULARY)
_MARKED: Final = {_VOCABULARY.named[name]: mark(name) for name in _SIGNS}


def walked(use: ToolUse, form: ToolFormat, rng: random.Random, length: int) -> str:
    """The text of a random answer as engines send it, closed by the shortest end."""
    matcher, tokens = _COMPILER.start(with_calls(use, None, form)), list[TokenId]()
    while not matcher.is_complete and len(tokens) < length:
        allowed = [TokenId(int(token)) for token in tokens_of(matcher.mask()) if token]
        if not allowed:
            break
        # Texts end, and members are begun, more often than bytes are drawn.
        rare = [one for one in allowed if one in _MARKED or _VOCABULARY.decode([one]) == b","]
        tokens.append(rng.choice(rare if rare and rng.random() < 0.2 else allowed))
        matcher = matcher.advance(tokens[-1])
    tokens += matcher.shortest_completion()
    pieces = [_MARKED.get(t, "").encode() or _VOCABULARY.token_bytes[t] or b"" for t in tokens]
    return b"".join(pieces).decode(errors="replace")


def reader_for(use: ToolUse, form: ToolFormat) -> CallReader:
    """The reader of the answers to a request with these tools."""
    make = reader_of(GenerationRequest((Message("user", "x"),), tools=use), form)
    assert make is not None
    return make()


def is_let_stand(machine: Any, text: str) -> bool:
    """Whether a machine accepts a text whose special tokens stand between marks."""
    written = text.encode()
    for name in _SIGNS:
        written = written.replace(mark(name).encode(), special_bytes(name))
    state = machine.advance(machine.start, written)
    return state is not None and machine.is_accepting(state)


def lets_stand(tool: Tool, form: ToolFormat) -> Any:
    """Whether a call of this tool with the given arguments is accepted."""
    machine = machine_of(with_calls(ToolUse((tool,), "required"), None, form))

    def is_let(arguments: object) -> bool:
        return is_let_stand(machine, form.call(tool.name, json.dumps(arguments)))

    return is_let
