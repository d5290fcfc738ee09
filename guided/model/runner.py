"""Runs a model on step batches: by our own forward pass on the CPU, or by transformers.

StepBatch ─▶ ModelRunner ─┬─ _OwnForward ──────────▶ CpuDecoder, with attention of its own
                          └─ _TransformersForward ─▶ a module, with PackedAttention
               storages of keys and values, by group of layers
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import distributed

from guided.errors import ModelError
from guided.kv.layer_groups import NO_KEYS, LayerShape, window_groups
from guided.kv.paged_storage import PagedStorage
from guided.kv.reservation import SlotCopies
from guided.model.adapted_module import adapt_module
from guided.model.adapted_rows import AdaptedRows
from guided.model.adapter import Adapter
from guided.model.attention import (
    KERNEL_VARIABLE,
    AttentionKernel,
    PackedAttention,
    choose_kernel,
)
from guided.model.batch import StepBatch, StepOutput
from guided.model.cpu import (
    CpuDecoder,
    LayerCache,
    WeightFormat,
    adapt_weights,
    take_decoder,
)
from guided.model.device import CPU
from guided.model.device_draws import DeviceDraws
from guided.model.model_files import longest_text
from guided.model.packed_call import call_packed
from guided.model.probe import ModelShape, probe_model
from guided.model.recurrent import RecurrentStep
from guided.model.stage import Stage
from guided.model.visible import visible_slots
from guided.spec import TokenId

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from guided.model.cuda_graphs import CudaGraphs

__all__ = ["ModelRunner"]


_log: Final = logging.getLogger(__name__)
_Storages = Mapping[int | None, PagedStorage]
"""Keys and values by window."""
_Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Logits on the model's device; hidden states and taps in float32 on the CPU; each for the rows
for which a batch needs them."""


class _OwnForward:
    """Our own forward pass; its positions do not depend on the length of a text."""

    longest_text: int | None = None
    """The most tokens of a text; ``None`` is any number."""
    spare_slots = 0
    """Slots of a storage to which it writes unused rows."""
    can_draw = False
    """Whether tokens can be drawn on the device of its logits."""

    def __init__(self, decoder: CpuDecoder) -> None:
        self._decoder = decoder
        self._cache: list[LayerCache] = []
        self.shape = ModelShape(decoder.layers, decoder.windows, decoder.dtype, CPU)
        self.description = "forward own, cache as computed"

    @property
    def embedding(self) -> torch.Tensor:
        """The table of token embeddings, ``[vocabulary, hidden]``."""
        return self._decoder.embedding

    def open(self, storages: _Storages) -> None:
        """Use these storages from now on."""
        layers = [storages[window].layers[n] for n, window in enumerate(self.shape.windows)]
        self._cache = [LayerCache.of(slots.keys.numbers, slots.values.numbers) for slots in layers]

    def adapt(self, adapters: Sequence[Adapter], rows: AdaptedRows) -> None:
        """Add what adapters do from now on, numbered from 1 in their order."""
        self._decoder = CpuDecoder(adapt_weights(self._decoder.weights, adapters, rows))

    def warm_up(self) -> None:
        """Do what first calls would otherwise wait for.

        That is nothing: kernels are compiled when a model is loaded.
        """

    def forward(self, batch: StepBatch, taps: tuple[int, ...]) -> _Found:
        """Return logits ``[logits rows, vocabulary]``, last states ``[wanted, hidden]``, and taps.

        Rows are those that the batch names in ``logits_rows`` and ``states_rows``. ``taps`` are the
        layers whose inputs are returned side by side, ``[wanted, taps · hidden]``.
        """
        windows = window_groups(self.shape.windows)
        visible = {
            window: visible_slots(batch, group, window) for group, window in enumerate(windows)
        }
        wanted = np.array(batch.states_rows, np.int64)
        states, tapped = self._decoder.states(
            np.array(batch.tokens),
            np.array(batch.positions),
            visible,
            self._cache,
            taps if len(wanted) else (),
        )
        logits = self._decoder.logits(states[np.array(batch.logits_rows, np.int64)])
        return logits, torch.from_numpy(states[wanted]), torch.from_numpy(tapped[wanted])


class _TransformersForward:
    """The forward pass of a module of transformers, with attention over our cache."""

    def __init__(
        self,
        module: PreTrainedModel,
        kernel: AttentionKernel | None,
        stage: Stage | None,
        *,
        is_quantised: bool,
    ) -> None:
        module.train(mode=False)
        self._module = module
        self._storages: _Storages = {}
        self._graphs: CudaGraphs | None = None
        self._kernel, self.shape = _try_kernel(module, kernel, stage)
        self.longest_text = longest_text(module.config.get_text_config())
        cache = "int8" if is_quantised else "as computed"
        self.description = f"forward transformers, attention {self._kernel.name}, cache {cache}"
        if self.shape.mixers:
            self.description += f", {len(self.shape.mixers)} layers with a state"
        self.spare_slots = int(self._kernel is AttentionKernel.TRITON)
        self.can_draw = bool(self.spare_slots) and self.shape.device.type == "cuda"
        self._has_graphs = (
            self.can_draw
            and not self.shape.mixers
            and stage is None
            and not (distributed.is_available() and distributed.is_initialized())
        )

    @property
    def embedding(self) -> torch.Tensor:
        found = self._module.get_input_embeddings()
        assert isinstance(found, torch.nn.Embedding), f"tokens are embedded by {found!r}"
        return found.weight

    def open(self, storages: _Storages) -> None:
        self._storages = storages
        if self._has_graphs:
            # Triton is not installed everywhere.
            from guided.model.cuda_graphs import CudaGraphs

            self._graphs = CudaGraphs(self._module, storages, self.shape.device)

    def adapt(self, adapters: Sequence[Adapter], rows: AdaptedRows) -> None:
        self._has_graphs = False  # which adapter a token has is passed beside the call
        apart = [part for mixer in self.shape.mixers for part in mixer.parts]
        adapt_module(self._module, adapters, rows, apart)

    def warm_up(self) -> None:
        if self._graphs is not None:
            self._graphs.record_all()

    @torch.inference_mode()
    def forward(self, batch: StepBatch, taps: tuple[int, ...]) -> _Found:
        """Do as ``_OwnForward`` by the module, or by a CUDA graph if one fits."""
        dtype, device = self.shape.dtype, self.shape.device
        states = tapped = torch.empty(0, 0)
        replayed = None if self._graphs is None else self._graphs.logits(batch)
        if replayed is not None:
            return replayed, states, tapped
        step = PackedAttention.of_batch(
            batch, self._storages, kernel=self._kernel, dtype=dtype, device=device
        )
        mixers = len(self.shape.mixers)
        recurrent = RecurrentStep(batch, mixers, device) if mixers else None
        output = call_packed(self._module, batch, step, device, recurrent)
        if recurrent is not None:
            recurrent.finish()
        if batch.states_rows:
            # The first is the input of the first layer, and so on; the last follows the last norm.
            rows = [output.hidden_states[n][0][batch.states_rows] for n in (*taps, -1)]
            *entering, states = [row.float().cpu() for row in rows]
            tapped = torch.cat(entering, 1) if entering else states[:, :0]
        return output.logits[0], states, tapped


def _try_kernel(
    module: PreTrainedModel, kernel: AttentionKernel | None, stage: Stage | None
) -> tuple[AttentionKernel, ModelShape]:
    """Return the kernel of a model, and what its trial showed.

    Torch's kernel computes if another one, that was not requested, cannot: Triton's needs a C
    compiler, and enough memory of a multiprocessor for wide heads.
    """
    chosen = kernel or choose_kernel(module.dtype, module.device)
    try:
        return chosen, probe_model(module, chosen, stage)
    except ModelError as error:
        if chosen is AttentionKernel.TORCH or kernel or KERNEL_VARIABLE in os.environ:
            raise
        try:
            shape = probe_model(module, AttentionKernel.TORCH, stage)
        except ModelError:
            raise error from error.__cause__  # the model itself fails
        _log.warning("torch computes attention, and nothing is replayed: %s", error)
        return AttentionKernel.TORCH, shape


class ModelRunner:
    """Runs a model a call at a time: a step batch in, the logits it needs out.

    Its layers are in groups by the window of their attention, the widest first. The forward pass is
    our own (``guided.model.cpu``) if ``model`` is a ``CpuDecoder``, or if ``weights`` names the
    format to which a module's weights are converted for one; raises ``ModelError`` if that cannot
    be. Otherwise it is that of transformers, ``kernel`` computes its attention (``None``: see
    ``choose_kernel``), and the cache may be kept as int8 (``quantise_cache``). Segments name
    ``adapters`` by their number, from 1; raises ``ModelError`` for one of another model. ``stage``
    says which layers a module has, if other processes have the others.
    """

    def __init__(
        self,
        model: PreTrainedModel | CpuDecoder,
        *,
        vocabulary_size: int,
        weights: WeightFormat | None = None,
        kernel: AttentionKernel | None = None,
        quantise_cache: bool = False,
        adapters: Sequence[Adapter] = (),
        stage: Stage | None = None,
    ) -> None:
        """``vocabulary_size`` is how many logits ``forward`` returns for a row: those of the model,
        cut off or filled up with minus infinity.

        With ``weights`` the module loses its tensors; see ``take_decoder``. They are not read if
        ``model`` is a ``CpuDecoder``, and ``kernel`` and ``stage`` are read for transformers alone.
        Nothing can be computed before ``open_storages``.
        """
        is_own = weights is not None or isinstance(model, CpuDecoder)
        if quantise_cache and is_own:
            raise ModelError(
                "our own forward pass on the CPU keeps keys and values as it computes them, not as "
                "int8",
                hint="leave the cache as it is, or let transformers compute the forward pass",
            )
        if not isinstance(model, CpuDecoder) and weights is not None:
            model = take_decoder(model, weights)
        self._forward = (
            _OwnForward(model)
            if isinstance(model, CpuDecoder)
            else _TransformersForward(model, kernel, stage, is_quantised=quantise_cache)
        )
        self._rows: AdaptedRows | None = None
        if adapters:
            self._rows = AdaptedRows()
            self._forward.adapt(adapters, self._rows)
        self._vocabulary_size = vocabulary_size
        device = self.shape.device
        draws = self._forward.can_draw
        self._draws = DeviceDraws(device, vocabulary_size) if draws else None
        self._taps: tuple[int, ...] = ()
        self._is_cache_quantised = quantise_cache
        self._storages: dict[int | None, PagedStorage] = {}

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How many positions a token sees, including its own, by group; ``None`` is all."""
        return window_groups(self.shape.windows)

    @property
    def shape(self) -> ModelShape:
        """What the layers keep of a token, and how far they see."""
        return self._forward.shape

    @property
    def layers_by_rank(self) -> tuple[tuple[LayerShape, ...], ...]:
        """What each process keeps of a token, by layer; here there is one process."""
        return (self.shape.layers,)

    @property
    def embedding(self) -> torch.Tensor:
        """The model's table of token embeddings, ``[vocabulary, hidden]``."""
        return self._forward.embedding

    @property
    def cache_nbytes(self) -> int:
        """Bytes of keys and values."""
        return sum(storage.nbytes for storage in self._storages.values())

    @property
    def description(self) -> str:
        """What computes the calls, as far as their time depends on it."""
        return self._forward.description

    def context_window(self, wanted: int) -> int:
        """Return how many of the wanted tokens a text may have; see ``longest_text``."""
        longest = self._forward.longest_text
        return wanted if longest is None else min(wanted, longest)

    def tap(self, layers: tuple[int, ...]) -> None:
        """From now on, return the inputs of these layers beside hidden states, for their rows."""
        count = len(self.shape.layers)
        assert all(0 <= layer < count for layer in layers), f"{layers} of {count} layers"
        self._taps = layers

    def open_storages(self, num_slots: Sequence[int]) -> None:
        """Allocate the memory for the slots of each group; what was stored before is lost."""
        self._storages = {
            window: PagedStorage(
                self._layers(window),
                slots + self._forward.spare_slots,
                dtype=self.shape.dtype,
                device=self.shape.device,
                is_quantised=self._is_cache_quantised,
            )
            for window, slots in zip(self.windows, num_slots, strict=True)
        }
        self._forward.open(self._storages)

    def warm_up(self) -> None:
        """Do beforehand what first calls over the open storages would wait for."""
        self._forward.warm_up()

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Copy rows between slots, by group."""
        for storage, of_group in zip(self._storages.values(), copies, strict=True):
            storage.copy(of_group)

    def forward(self, batch: StepBatch) -> StepOutput:
        """Compute the logits of ``batch.logits_rows``, with what was drawn from them; states and
        taps of ``batch.states_rows``."""
        longest = max(batch.positions) + 1
        assert self.context_window(longest) == longest, f"a text of {longest} tokens"
        if self._rows is not None:
            self._rows.begin(batch)
        logits, states, taps = self._forward.forward(batch, self._taps)
        # Models often pad their logits to a round width; or a tokenizer has more tokens.
        missing = self._vocabulary_size - logits.shape[1]
        if missing > 0:
            logits = torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
        logits = logits[:, : self._vocabulary_size]
        drawn: tuple[TokenId | None, ...] = ()
        if self._draws is not None and batch.device_draws is not None:
            # The device is still computing while the masks are found.
            drawn = self._draws.draw(logits, batch.device_draws())
        return StepOutput(logits, states, taps, drawn)

    def wait(self) -> None:
        """Wait until the device has finished everything."""
        if self.shape.device.type == "cuda":
            torch.cuda.synchronize(self.shape.device)

    def close(self) -> None:
        """End the runner's other processes; here there are none."""

    def _layers(self, window: int | None) -> dict[int, LayerShape]:
        """Return what layers with this window keep of a token, by layer, where they keep any."""
        every = zip(self.shape.layers, self.shape.windows, strict=True)
        return {
            n: layer
            for n, (layer, its_window) in enumerate(every)
            if its_window == window and layer != NO_KEYS
        }
