"""The grammar backend of SGLang's scheduler, and a grammar for each of its requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
)

from guided.compiler import Compiled, Compiler
from guided.errors import GuidedError
from guided.integrations.hosted_matcher import HostedMatcher, fill_all
from guided.integrations.json_form import JsonForm
from guided.spec import Regex, Structure, TokenId
from guided.spec.grammar_format import grammar_of
from guided.spec.structural_tags import read_structural_tag

__all__ = ["GuidedGrammar", "GuidedGrammarBackend"]

_ANY_OBJECT: Final = "$$ANY$$"
"""What SGLang passes for ``json_object``."""


class _Row(Protocol):
    """SGLang's ``GrammarRow``."""

    @property
    def row(self) -> int: ...

    @property
    def grammar(self) -> Any: ...


class GuidedGrammar(BaseGrammarObject):  # type: ignore[misc] # SGLang is not typed
    """The position of the answer to one request."""

    def __init__(self, compiled: Compiled) -> None:
        super().__init__()
        self._compiled: Final = compiled
        self._matcher: Final = HostedMatcher(compiled.matcher(), compiled.vocabulary.end_ids)

    # --- moving -------------------------------------------------------------------------------

    def accept_token(self, token: int) -> None:
        """Move over a token; if it is not allowed, raises ValueError, which ends the request."""
        self.current_token = token
        if not self._matcher.accept([token]):
            raise ValueError(f"token {token} may not come here")

    def rollback(self, k: int) -> None:
        """Take back the last tokens."""
        self._matcher.rollback(k)

    def is_terminated(self) -> bool:
        """Whether the end-of-sequence token was accepted."""
        return self._matcher.is_terminated

    def copy(self) -> GuidedGrammar:
        """Return another grammar of the constraint, before its first token."""
        return GuidedGrammar(self._compiled)

    # --- masks --------------------------------------------------------------------------------

    def allocate_vocab_mask(
        self,
        vocab_size: int,
        batch_size: int,
        device: object,  # noqa: ARG002 - it is filled in the processor's memory
    ) -> torch.Tensor:
        """Return int32 ``[batch_size, words]`` in the processor's memory; allows all tokens."""
        shape = (batch_size, (vocab_size + 31) // 32)
        return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write which tokens may come next to one row."""
        self._matcher.fill(vocab_mask.numpy(), idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[_Row], vocab_mask: torch.Tensor) -> None:
        """Write the rows of a batch, those of our grammars in one call."""
        ours = [each for each in entries if isinstance(each.grammar, GuidedGrammar)]
        matchers = [each.grammar._matcher for each in ours]
        fill_all(matchers, vocab_mask.numpy(), [each.row for each in ours])
        for each in entries:
            if not isinstance(each.grammar, GuidedGrammar):  # it reasons first
                each.grammar.fill_vocab_mask(vocab_mask, each.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow all tokens."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Move the mask to the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set logits ``[rows, logits]`` of forbidden tokens to minus infinity, in place."""
        places = torch.arange(32, device=logits.device, dtype=torch.int32)
        allowed = (vocab_mask[:, :, None] >> places & 1).bool().flatten(1)
        logits.masked_fill_(~allowed[:, : logits.shape[1]], -torch.inf)

    # --- forced runs --------------------------------------------------------------------------

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:  # noqa: ARG002
        """Return the text that must come next; ``None`` if there is a choice."""
        data = self._compiled.vocabulary.decode(map(TokenId, self._matcher.forced()))
        text = data.decode("utf-8", errors="ignore")  # an incomplete character comes later
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Return the text, and a state number, which is unused."""
        return helper[1], -1

    def jump_and_retokenize(
        self,
        old_output_ids: list[int],
        new_output_ids: list[int],
        next_state: int,  # noqa: ARG002 - the tokens give the position
    ) -> None:
        """Go back to where both spellings part, and move along the new one."""
        pairs = zip(old_output_ids, new_output_ids, strict=False)
        same = next((n for n, (old, new) in enumerate(pairs) if old != new), None)
        if same is None:
            same = min(len(old_output_ids), len(new_output_ids))
        self._matcher.rollback(len(old_output_ids) - same)
        if not self._matcher.accept(new_output_ids[same:]):
            raise ValueError(f"the text is spelled by tokens that may not come: {new_output_ids}")


class GuidedGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles constraints, in SGLang's threads."""

    def __init__(self, tokenizer: Any, vocab_size: int, end_ids: Iterable[int] = ()) -> None:
        """``vocab_size`` counts the model's logits; raises ModelError and RequestError."""
        super().__init__()
        self._form: Final = JsonForm.of_environment()
        self._compiler: Final = Compiler(tokenizer, end_ids=end_ids, num_logits=vocab_size)
        self._compiler.rehearse(self._form.options)

    def dispatch_json(self, key_string: str) -> Any:
        given: object = {"type": "object"} if key_string == _ANY_OBJECT else key_string
        return self._grammar(lambda: self._form.schema(given))

    def dispatch_regex(self, key_string: str) -> Any:
        return self._grammar(lambda: Regex(key_string))

    def dispatch_ebnf(self, key_string: str) -> Any:
        return self._grammar(lambda: grammar_of(key_string))

    def dispatch_structural_tag(self, key_string: str) -> Any:
        return self._grammar(lambda: read_structural_tag(key_string, self._form.schema))

    def _grammar(self, read: Any) -> Any:
        """Return a grammar, or an object that reports to the caller why there is none."""
        try:
            structure: Structure = read()
            return GuidedGrammar(self._compiler.compile(structure))
        except GuidedError as error:
            return InvalidGrammarObject(str(error))
