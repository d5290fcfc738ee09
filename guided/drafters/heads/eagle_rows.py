"""The rows of an EAGLE-3 head: computed for several texts at once, with keys and values kept.

Row ``i`` of a text holds token ``i + 1`` and the feature of position ``i``, and predicts token
``i + 2``::

    text         a   b   c   d   e │ certain  │ drafted
    taps of      a   b   c   d   e │ none: the model has not computed these
    rows           b   c   d   e     f          g ...
                   └ kept, paged ┘   └ keys and values of their own, given up with the tree

Rows whose feature came from taps stay. The others are computed again once the model has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from guided.drafters.heads.eagle_module import EagleHead
from guided.drafters.heads.products import pack_linears, rows_dtype
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.layer_groups import LayerShape
from guided.kv.paged_storage import PagedStorage
from guided.kv.sequence_blocks import SequenceBlocks
from guided.spec import TokenId

__all__ = ["EagleRows", "KeysValues", "Past", "TextRows", "head_layer"]

_BLOCK_SIZE: Final = 8


class KeysValues(NamedTuple):
    """The keys and values of some rows, ``[rows, kv_heads, head_dim]`` each."""

    keys: torch.Tensor
    values: torch.Tensor

    def concatenate(self, others: Sequence[KeysValues]) -> KeysValues:
        """Return these followed by those of other rows."""
        return KeysValues(
            torch.cat([self.keys, *(other.keys for other in others)]),
            torch.cat([self.values, *(other.values for other in others)]),
        )


class Past(NamedTuple):
    """What a row sees besides itself.

    A tree has many places, and each of them needs all that is kept of its text: they share it.
    """

    kept: KeysValues
    drafted: KeysValues
    """The drafted rows of this place only."""


@dataclass(frozen=True, slots=True, eq=False)
class TextRows:
    """The next rows of one text whose features come from taps."""

    blocks: SequenceBlocks
    tokens: Sequence[TokenId]
    features: torch.Tensor
    """``[tokens, hidden]``."""
    position: int
    """The index of the first of them."""


def head_layer(head: EagleHead) -> LayerShape:
    """Return what the head keeps of a token."""
    return LayerShape(head.shape.kv_heads, head.shape.head_dim, head.shape.head_dim)


class EagleRows:
    """One EAGLE head and the cache of its rows; every method works on several texts at once."""

    def __init__(
        self,
        head: EagleHead,
        *,
        cache_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
        reuse_prefixes: bool = True,
    ) -> None:
        """``head`` has its embedding; it is moved to a type and a device for good.

        ``cache_tokens`` rows are kept of all texts together; ``reuse_prefixes`` lets a text begin
        with rows that others left.
        """
        pack_linears(head, dtype, device)
        self._head = head
        self._dtype, self._device = rows_dtype(dtype, device), device
        group = LayerGroup(max(1, -(-cache_tokens // _BLOCK_SIZE)))
        self.cache: Final = BlockCache([group], _BLOCK_SIZE, reuse_prefixes=reuse_prefixes)
        self._unshared_numbers = count()
        self._storage = PagedStorage(
            {0: head_layer(head)},
            self.cache.pools[0].num_slots,
            dtype=self._dtype,
            device=self._device,
        )

    def open(self, prompt: Sequence[TokenId], salt: str) -> SequenceBlocks:
        """Return the rows kept for a prompt's beginning, for a text that begins with the prompt.

        Row ``i`` is computed from token ``i + 1``, so rows are found by the tokens from the second
        on; the first token is part of the salt, because all rows depend on it.
        """
        if not prompt:
            return self.open_unshared()
        return self.cache.open(prompt[1:], salt=f"{prompt[0]} {salt}")

    def open_unshared(self) -> SequenceBlocks:
        """Begin a text without rows, whose rows no other text may use: its beginning is missing."""
        return self.cache.open(salt=f"apart {next(self._unshared_numbers)}")

    @torch.inference_mode()
    def fuse(self, taps: torch.Tensor) -> torch.Tensor:
        """Fuse taps ``[rows, taps · target]`` to the feature of each row, ``[rows, hidden]``."""
        return self._head.fuse(taps.to(self._device, self._dtype))

    @torch.inference_mode()
    def keep(self, texts: Sequence[TextRows]) -> list[torch.Tensor | None]:
        """Compute rows and keep their keys and values; returns the last output of each text.

        That is ``[hidden]``, or ``None`` if there was no room for its rows, and none was kept.
        After an error some texts may have kept or reserved rows: release those of all.
        """
        counts = [len(text.tokens) for text in texts]
        longest = max(counts)
        places = torch.arange(longest, device=self._device)
        # A text with fewer rows has padding after its own, which none of these sees.
        tokens = pad_sequence([self._ids(text.tokens) for text in texts], True)
        features = pad_sequence([text.features for text in texts], True)
        first = self._ids([text.position for text in texts])
        pasts = [self._read_kept(text.blocks) for text in texts]
        sees_past = _existing_rows(pasts, self._device)[:, None].expand(-1, longest, -1)
        sees_own = places[:, None] >= places[None, :]
        output, keys, values = self._compute(
            tokens,
            features,
            first[:, None] + places,
            pasts,
            torch.cat((sees_past, sees_own.expand(len(texts), -1, -1)), dim=2),
        )
        return [
            rows[length - 1] if self._store(text, of_keys[:length], of_values[:length]) else None
            for text, length, rows, of_keys, of_values in zip(
                texts, counts, output, keys, values, strict=True
            )
        ]

    @torch.inference_mode()
    def continue_rows(
        self,
        tokens: Sequence[TokenId],
        features: Sequence[torch.Tensor],
        positions: Sequence[int],
        pasts: Sequence[Past],
    ) -> tuple[list[torch.Tensor], list[Past]]:
        """Compute one row after each past; return the outputs, ``[hidden]``, and the longer pasts.

        Rows may follow the same text, in different branches of its tree: none sees another, and
        what is kept of the text is read once.
        """
        texts = _by_text(pasts)
        before = [
            pasts[text[0]].kept.concatenate([pasts[place].drafted for place in text])
            for text in texts
        ]
        output, keys, values = self._compute(
            pad_sequence([self._ids([tokens[p] for p in text]) for text in texts], True),
            pad_sequence([torch.stack([features[p] for p in text]) for text in texts], True),
            pad_sequence([self._ids([positions[p] for p in text]) for text in texts], True),
            before,
            _visibility(texts, pasts, max(len(past.keys) for past in before)).to(self._device),
        )
        outputs: list[torch.Tensor] = [output[0, 0]] * len(pasts)
        after = list(pasts)
        for number, text in enumerate(texts):
            for row, place in enumerate(text):
                own = KeysValues(keys[number, row, None], values[number, row, None])
                outputs[place] = output[number, row]
                after[place] = Past(pasts[place].kept, pasts[place].drafted.concatenate([own]))
        return outputs, after

    @torch.inference_mode()
    def logits(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the logits after some rows, ``[rows, draft]``."""
        logits, _ = self._head.predict(torch.stack(list(outputs)))
        return logits

    @torch.inference_mode()
    def feature(self, output: torch.Tensor) -> torch.Tensor:
        """Return the feature of the row after this one, ``[hidden]``."""
        normed: torch.Tensor = self._head.norm(output)
        return normed if self._head.shape.norm_output else output

    @torch.inference_mode()
    def past(self, blocks: SequenceBlocks) -> Past:
        """Return the rows that are kept of a text, and none after them."""
        kept = self._read_kept(blocks)
        return Past(kept, KeysValues(kept.keys[:0], kept.values[:0]))

    def _read_kept(self, blocks: SequenceBlocks) -> KeysValues:
        """Return copies of the keys and values that are kept of a text."""
        slots = self._storage.locate(blocks.tables[0].slots().copy())
        return KeysValues(*self._storage.layers[0].read(slots))

    def _store(self, text: TextRows, keys: torch.Tensor, values: torch.Tensor) -> bool:
        """Keep the keys and values of a text's next rows; return whether there was room.

        They are ``[rows, kv_heads, head_dim]``.
        """
        if not text.blocks.can_reserve(len(text.tokens)):
            return False
        (rows,) = text.blocks.reserve(len(text.tokens))
        self._storage.copy(rows.copies)
        self._storage.layers[0].write(self._storage.locate(rows.slots), keys, values)
        text.blocks.commit(range(len(text.tokens)), text.tokens)
        return True

    def _compute(
        self,
        tokens: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        pasts: Sequence[KeysValues],
        sees: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the outputs of some rows of each text, ``[texts, rows, hidden]``, keys and values.

        Keys and values are ``[texts, rows, kv_heads, head_dim]``. ``tokens`` and ``positions`` are
        ``[texts, rows]``, ``features`` ``[texts, rows, hidden]``, and ``pasts`` the rows before, by
        text. ``sees`` says which rows each sees: of the longest past, padded at the end, and then
        of these, ``[texts, rows, past + rows]``.
        """
        layer = self._head.layer
        read, residual = layer.prepare(self._head.embed(tokens).to(self._dtype), features)
        query, key, value = layer.self_attn.project(
            read, *self._head.angles(positions, self._dtype)
        )
        keys = pad_sequence([past.keys for past in pasts], True)
        values = pad_sequence([past.values for past in pasts], True)
        attended = layer.self_attn.attend(
            query, torch.cat((keys, key), 1), torch.cat((values, value), 1), sees
        )
        return layer.finish(residual, attended), key, value

    def _ids(self, numbers: Sequence[int]) -> torch.Tensor:
        """Return tokens or positions as a tensor on the device."""
        return torch.tensor(numbers, dtype=torch.long, device=self._device)


def _existing_rows(pasts: Sequence[KeysValues], device: torch.device) -> torch.Tensor:
    """Return which rows of padded pasts exist, ``[texts, rows]``."""
    lengths = torch.tensor([len(past.keys) for past in pasts], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]


def _by_text(pasts: Sequence[Past]) -> list[list[int]]:
    """Return by text the indices of the ``pasts`` that share what is kept of it."""
    texts: dict[int, list[int]] = {}
    for place, past in enumerate(pasts):
        texts.setdefault(id(past.kept.keys), []).append(place)
    return list(texts.values())


def _visibility(
    texts: Sequence[Sequence[int]], pasts: Sequence[Past], longest: int
) -> torch.Tensor:
    """Return what each place sees, ``[texts, rows, longest + rows]``.

    A place is an index of ``pasts``, ``texts`` is ``_by_text(pasts)``, and ``longest`` the most
    rows that all pasts of a text have together. Each sees what is kept of its text, its own drafted
    rows, and itself::

        kept │ drafted of place 0 │ drafted of place 1 │ padding │ place 0, place 1
    """
    rows = max(map(len, texts))
    sees = torch.zeros(len(texts), rows, longest + rows, dtype=torch.bool)
    # Padding rows see themselves, because attention to nothing is NaN.
    sees[:, :, longest:] = torch.eye(rows, dtype=torch.bool)
    for number, text in enumerate(texts):
        end = kept = len(pasts[text[0]].kept.keys)
        for row, place in enumerate(text):
            drafted = len(pasts[place].drafted.keys)
            sees[number, row, :kept] = True
            sees[number, row, end : end + drafted] = True
            end += drafted
    return sees
