"""Registers the backend in SGLang's registry of grammar backends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["NAME", "register"]

NAME: Final = "guided"
"""The name of the backend in SGLang's options."""


def register() -> None:
    """Register the backend in this process; SGLang calls it by its entry point."""
    from sglang.srt.arg_groups.choices import add_grammar_backend_choices
    from sglang.srt.constrained.base_grammar_backend import (
        GRAMMAR_BACKEND_REGISTRY,
        register_grammar_backend,
    )

    if NAME not in GRAMMAR_BACKEND_REGISTRY:
        add_grammar_backend_choices([NAME])
        register_grammar_backend(NAME, _backend)


def _backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None
) -> Any:
    """Return the backend of a scheduler; it applies after the reasoning, if there is any."""
    from guided.integrations.sglang.backend import GuidedGrammarBackend

    made = GuidedGrammarBackend(tokenizer, vocab_size, eos_token_ids or ())
    if not server_args.reasoning_parser:
        return made
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(
        model_type=server_args.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    # SGLang wraps its own backends like this; registered ones must do it themselves.
    return ReasonerGrammarBackend(
        made,
        parser,
        tokenizer,
        enable_strict_thinking=getattr(server_args, "enable_strict_thinking", False),
    )
