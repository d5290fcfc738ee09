"""The backend in vLLM's engine, which compiles constraints and keeps a matcher for each request.

The classes have the methods of vLLM's ``StructuredOutputBackend`` and ``StructuredOutputGrammar``,
and the plugin registers them as such; so this module can be imported and tested without vLLM.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Protocol

from guided.integrations.hosted_matcher import HostedMatcher
from guided.integrations.json_form import JsonForm
from guided.integrations.vllm.forced_runs import forcing_of_environment
from guided.integrations.vllm.requests import ModelConfig, compiler_of, structure_of

if TYPE_CHECKING:
    import torch

__all__ = ["GuidedBackend", "GuidedGrammar"]


class _Config(Protocol):
    @property
    def model_config(self) -> ModelConfig: ...


class _Kind(Protocol):
    """A member of vLLM's ``StructuredOutputOptions``."""

    @property
    def name(self) -> str: ...


class GuidedBackend:
    """The backend of one engine; ``compile_grammar`` is called from several threads."""

    def __init__(self, vllm_config: _Config, tokenizer: Any, vocab_size: int) -> None:
        """``vocab_size`` is the number of the model's logits.

        Takes some seconds, which the first request would wait otherwise. Raises ModelError for an
        unusable tokenizer, and RequestError for a wrong ``GUIDED_JSON`` or ``GUIDED_FORCING``.
        """
        self.vllm_config = vllm_config
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self._form: Final = JsonForm.of_environment()
        self._forcing: Final = forcing_of_environment()
        self._compiler: Final = compiler_of(tokenizer, vllm_config.model_config)
        self._compiler.rehearse(self._form.options)

    def compile_grammar(
        self, request_type: _Kind, grammar_spec: str, stop_token_ids: Collection[int] | None = None
    ) -> GuidedGrammar:
        """Return a matcher of a constraint; raises GuidedError, which fails only this request."""
        structure = structure_of(request_type.name.lower(), grammar_spec, self._form)
        compiled = self._compiler.compile(structure)
        ends = compiled.vocabulary.end_ids
        return GuidedGrammar(
            HostedMatcher(compiled.matcher(), ends, stop_token_ids or (), self._forcing)
        )

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Return int32 ``[max_num_seqs, words]`` for all logits of the model."""
        import torch

        return torch.zeros((max_num_seqs, (self.vocab_size + 31) // 32), dtype=torch.int32)

    def destroy(self) -> None:
        """Do nothing: it holds nothing that would outlive it."""


class GuidedGrammar:
    """The position of the answer to one request."""

    def __init__(self, matcher: HostedMatcher) -> None:
        self._matcher: Final = matcher

    def end_within(self, max_tokens: int | None) -> None:
        """End the answer before it is cut off after ``max_tokens``."""
        if max_tokens is not None:
            self._matcher.end_within(max_tokens)

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:  # noqa: ARG002 - vLLM's
        """Move over tokens; False, which ends the request with an error, if one is forbidden."""
        return self._matcher.accept(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the first tokens, up to one that may not follow, without moving."""
        return tokens[: self._matcher.validate(tokens)]

    def forced(self, end: int | None) -> list[int]:
        """Return tokens that must come next, followed by ``end`` if only the end may follow."""
        run = [*self._matcher.forced()]
        if end is not None and self._matcher.is_complete_after(run):
            run.append(end)
        return run

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens."""
        self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write which tokens may come next to one row."""
        self._matcher.fill(bitmask.numpy(), batch_index)

    def is_terminated(self) -> bool:
        """Whether the end-of-sequence token was accepted."""
        return self._matcher.is_terminated

    def reset(self) -> None:
        """Go back to before the first token."""
        self._matcher.reset()
