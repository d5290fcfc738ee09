"""Narrow calls of a module on a CUDA device, replayed from graphs.

A layer of an 8B model takes the device a quarter of a millisecond for one token, and Python four
times that to launch it. A graph holds all launches of a call, and is launched at once; it computes
the same numbers. One is recorded for each width, at the start or on first use, in a tenth of a
second.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import torch

from guided.kv.paged_storage import PagedStorage
from guided.model.attention import running
from guided.model.batch import StepBatch
from guided.model.fixed_inputs import FixedInputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CudaGraphs"]

_WIDTHS: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Tokens of a call; above them the device takes longer than Python."""
_WIDEST: Final = _WIDTHS[-1]
_log: Final = logging.getLogger(__name__)


class CudaGraphs:
    """The graphs of a module over its storages, whose last slots are spare."""

    def __init__(
        self,
        module: PreTrainedModel,
        storages: Mapping[int | None, PagedStorage],
        device: torch.device,
    ) -> None:
        self._module: Any = module
        self._device = device
        self._inputs = FixedInputs(storages, _WIDEST, device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        # Graphs share their memory, including the place of their logits: one is replayed at a
        # time, and its result is copied.
        self._pool = torch.cuda.graph_pool_handle()
        self._logits = torch.empty(0)
        self._sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
        """Set when the last input has reached the device, and may be overwritten."""
        self._is_able = True

    def logits(self, batch: StepBatch) -> torch.Tensor | None:
        """Return the logits that a batch needs, on the device; ``None`` if no graph has them.

        A graph gives no hidden states, and has room for only some tokens. Nor can it be recorded
        for a module that has to read numbers from the device to continue.
        """
        if not self._is_able or batch.states_rows or not self._inputs.take(batch):
            return None
        wanted = len(batch.logits_rows)
        width = next(width for width in _WIDTHS if width >= len(batch.tokens))
        with torch.cuda.device(self._device):
            self._sent.synchronize()
            self._inputs.fill(batch, width)
            self._sent.record()
            if width not in self._graphs and not self._record(width):
                return None
            self._graphs[width].replay()
            return self._logits[:wanted].clone()

    def record_all(self) -> None:
        """Record the calls of every width, so that no answer has to wait for it."""
        for width in reversed(_WIDTHS):  # narrower graphs reuse the memory of the widest
            if self._is_able and width not in self._graphs:
                with torch.cuda.device(self._device):
                    self._sent.synchronize()
                    self._inputs.clear(width)
                    self._sent.record()
                    self._record(width)

    @torch.inference_mode()
    def _record(self, width: int) -> bool:
        """Record the call of a width, with filled inputs; return whether that was possible."""
        arguments, step = self._inputs.arguments(width), self._inputs.step(width)

        def call() -> None:
            with running(step):
                logits: torch.Tensor = self._module(**arguments, use_cache=False).logits[0]
            if not len(self._logits):
                self._logits = logits.new_empty(_WIDEST, logits.shape[1])
            self._logits[:width] = logits

        graph = torch.cuda.CUDAGraph()
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(beside):
                call()  # compiles kernels, and takes memory outside the graph's
            torch.cuda.current_stream().wait_stream(beside)
            # Meanwhile another thread may launch on a device what cannot be recorded.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=beside, capture_error_mode="thread_local"
            ):
                call()
        # A module is foreign code: what cannot be recorded fails with any error of torch, and so
        # does a lack of memory.
        except RuntimeError as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            _log.warning("%s is called without graphs: %s", type(self._module).__name__, reason)
            self._is_able = False
            return False
        self._graphs[width] = graph
        return True
