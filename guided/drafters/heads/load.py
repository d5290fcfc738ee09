"""Loads heads for a target: finds their kind by their files, and checks that they fit it.

::

    folders ─▶ read_heads ─▶ HeadSet      read and checked, before the weights of the target are
                                │         its runner is made
                                ▼
                             drafters     on the runner's device, in its type; layers are tapped
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn

from guided.decoding.drafter import Drafter
from guided.drafters.heads.eagle import EagleDrafter
from guided.drafters.heads.eagle_files import load_eagle
from guided.drafters.heads.eagle_module import EagleHead
from guided.drafters.heads.eagle_rows import head_layer
from guided.drafters.heads.head_files import has_tensors, read_config
from guided.drafters.heads.medusa import MedusaDrafter
from guided.drafters.heads.medusa_files import MEDUSA_FILES, load_medusa
from guided.drafters.heads.medusa_module import MedusaHeads
from guided.drafters.heads.products import rows_dtype
from guided.errors import ModelError, RequestError
from guided.kv.layer_groups import bytes_per_slot
from guided.model.model_files import ModelFiles
from guided.model.runner import ModelRunner

__all__ = ["HeadSet", "read_heads"]

_MAX_CACHE_TOKENS: Final = 16384
"""The most rows that an EAGLE head keeps, unless the target's cache is set to another size."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadSet:
    """Heads that were read for one target, at most one set of a kind."""

    medusa: MedusaHeads | None
    eagle: EagleHead | None
    cache_tokens: int
    """Rows that the EAGLE head keeps of all texts together."""

    def nbytes(self, dtype: torch.dtype, device: torch.device) -> int:
        """Return the bytes that they take when they compute in this type on a device."""
        modules = [module for module in (self.medusa, self.eagle) if module is not None]
        numbers = sum(weight.numel() for module in modules for weight in module.parameters())
        kept = 0
        if self.eagle is not None:
            kept_in = rows_dtype(dtype, device)
            kept = self.cache_tokens * bytes_per_slot([head_layer(self.eagle)], kept_in)
        return numbers * dtype.itemsize + kept

    def drafters(
        self, runner: ModelRunner, vocabulary_size: int, *, reuse_prefixes: bool = True
    ) -> tuple[Drafter, ...]:
        """Make the drafters of these heads beside this runner, which will tap their layers.

        ``reuse_prefixes`` lets texts share what a head keeps of their beginnings.
        """
        dtype, device = runner.shape.dtype, runner.shape.device
        found: list[Drafter] = []
        if self.eagle is not None:
            if not self.eagle.shape.has_embedding:
                self.eagle.use_embedding(runner.embedding)
            eagle = EagleDrafter(
                self.eagle,
                vocabulary_size=vocabulary_size,
                cache_tokens=self.cache_tokens,
                dtype=dtype,
                device=device,
                reuse_prefixes=reuse_prefixes,
            )
            runner.tap(eagle.taps)
            found.append(eagle)
        if self.medusa is not None:
            found.append(
                MedusaDrafter(
                    self.medusa, vocabulary_size=vocabulary_size, dtype=dtype, device=device
                )
            )
        return tuple(found)


def read_heads(
    folders: Sequence[str], target: ModelFiles, *, cache_tokens: int | None, drafts: bool
) -> HeadSet:
    """Read the heads of some folders; raises ``ModelError`` if they do not fit the target.

    ``cache_tokens`` is the size of the target's cache, if one was requested.
    """
    if folders and not drafts:
        raise RequestError(
            "heads are named, but drafting is off",
            field="heads",
            hint="leave them out, or let the engine draft",
        )
    medusa: MedusaHeads | None = None
    eagle: EagleHead | None = None
    for folder in folders:
        if _is_medusa(Path(folder)):
            _refuse_second(medusa, folder)
            medusa = load_medusa(folder)
            shape = medusa.shape
            _check_fit(folder, target, hidden=shape.hidden_size, tokens=shape.vocabulary_size)
        else:
            _refuse_second(eagle, folder)
            eagle = load_eagle(folder, target_layers=len(target.layers))
            _check_eagle(folder, target, eagle)
    return HeadSet(medusa, eagle, cache_tokens or _MAX_CACHE_TOKENS)


def _is_medusa(folder: Path) -> bool:
    """Whether a folder holds Medusa heads, and not an EAGLE-3 head; refuses other kinds."""
    config = read_config(folder)
    if has_tensors(folder, *MEDUSA_FILES):
        return True
    kind = config.get("speculators_model_type", "eagle3")
    has_name = any("eagle3" in name.lower() for name in config.get("architectures") or ())
    if kind == "eagle3" and (has_name or "draft_vocab_size" in config):
        return False
    raise ModelError(
        f"the config of {folder} tells of neither Medusa nor EAGLE-3 heads",
        hint=f"Medusa heads are in {' or '.join(MEDUSA_FILES)}; a config of EAGLE-3 has a "
        "draft_vocab_size",
    )


def _refuse_second(found: nn.Module | None, folder: str) -> None:
    """Raise RequestError if heads of the same kind were ``found`` before those of ``folder``."""
    if found is not None:
        raise RequestError(
            f"the heads of {folder} are a second set of their kind",
            field="heads",
            hint="name one folder of Medusa heads, and one of an EAGLE-3 head",
        )


def _check_eagle(folder: str, target: ModelFiles, head: EagleHead) -> None:
    """Raise ModelError for a head that was trained for another model than ``target``."""
    shape = head.shape
    _check_fit(folder, target, hidden=shape.target_hidden_size, tokens=shape.vocabulary_size)
    if not shape.has_embedding and shape.hidden_size != shape.target_hidden_size:
        raise ModelError(
            f"the head of {folder} has no embedding, and cannot read that of {target.name}: its "
            f"rows have {shape.target_hidden_size} numbers, not {shape.hidden_size}",
            hint="fetch the rest of its weights",
        )


def _check_fit(folder: str, target: ModelFiles, *, hidden: int, tokens: int) -> None:
    """Raise ModelError unless the target has this hidden size and this many tokens."""
    config = target.config.get_text_config()
    for described, wanted, found in (
        ("hidden states of size", hidden, int(config.hidden_size)),
        ("a vocabulary of size", tokens, int(config.vocab_size)),
    ):
        if wanted != found:
            raise ModelError(
                f"the heads of {folder} are made for {described} {wanted}, and {target.name} has "
                f"{found}",
                hint="name heads that were trained for this model",
            )
