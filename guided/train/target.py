"""The frozen target: its states at every token of a text, computed once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from guided.train.examples import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["FrozenTarget", "Seen"]

_KEPT_BYTES: Final = 2 << 30


class Seen(NamedTuple):
    """The target's states at the tokens of one text."""

    last: torch.Tensor
    """The input of its head, so after the last norm, ``[tokens, hidden]``."""
    taps: torch.Tensor
    """The inputs of the tapped layers, side by side, ``[tokens, taps · hidden]``."""


class FrozenTarget:
    """A target that is read and never trained.

    Its states of texts are kept in memory until they fill ``kept_bytes``; from then on those of new
    texts are computed each time they are needed.
    """

    def __init__(
        self, module: PreTrainedModel, *, taps: tuple[int, ...] = (), kept_bytes: int = _KEPT_BYTES
    ) -> None:
        """``taps`` are the layers whose input is needed, counted from 0."""
        self.module = module.requires_grad_(False)
        self.module.train(mode=False)
        self._taps = taps
        self._room = kept_bytes
        self._kept: dict[str, Seen] = {}

    @property
    def device(self) -> torch.device:
        """The device on which it computes."""
        return self.module.device

    @property
    def head(self) -> torch.Tensor:
        """The matrix over the vocabulary, ``[vocabulary, hidden]``."""
        module: Any = self.module
        weight: torch.Tensor = module.get_output_embeddings().weight
        return weight

    @property
    def embedding(self) -> torch.Tensor:
        """The table of token embeddings, ``[vocabulary, hidden]``."""
        module: Any = self.module
        weight: torch.Tensor = module.get_input_embeddings().weight
        return weight

    def see(self, examples: Sequence[Example]) -> list[Seen]:
        """Return the target's states at every token of some texts, on the CPU."""
        new = [example for example in examples if example.key not in self._kept]
        computed = dict(zip((each.key for each in new), self._compute(new), strict=True))
        found = [self._kept.get(each.key) or computed[each.key] for each in examples]
        for key, seen in computed.items():
            size = seen.last.nbytes + seen.taps.nbytes
            if size <= self._room:
                self._room -= size
                self._kept[key] = seen
        return found

    @torch.no_grad()
    def _compute(self, examples: Sequence[Example]) -> list[Seen]:
        if not examples:
            return []
        rows = [torch.tensor(each.tokens, device=self.device) for each in examples]
        # No token sees later ones, so the padding of shorter texts need not be masked.
        output: Any = self.module.base_model(
            input_ids=pad_sequence(rows, batch_first=True),
            use_cache=False,
            output_hidden_states=bool(self._taps),
        )
        found = []
        for number, row in enumerate(rows):
            last = output.last_hidden_state[number, : len(row)]
            taps = [output.hidden_states[tap][number, : len(row)] for tap in self._taps]
            # Clones, because a view would keep the states of the whole batch.
            tapped = torch.cat(taps, -1) if taps else last[:, :0].clone()
            found.append(Seen(last.clone().cpu(), tapped.cpu()))
        return found
