"""Narrow calls of a module on a CUDA device, replayed from graphs.

A layer of an 8B model takes the device a quarter of a millisecond for one token, and Python as long
as that four times over to ask for it. A graph holds all that a call asks of the device, and is
asked for at once; it computes the same numbers. One is recorded for each width, at the start or
when it is met, in a tenth of a second.
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
        # Their memory is shared, and so is where they leave their logits: one is replayed at a
        # time, and what it computed is copied.
        self._pool = torch.cuda.graph_pool_handle()
        self._logits = torch.empty(0)
        self._sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
        """What was written last has gone to the device, and may be written over."""
        self._is_able = True

    def logits(self, batch: StepBatch) -> torch.Tensor | None:
        """The logits that a batch asks for, on the device; ``None`` where no graph has them.

        A graph gives no hidden states, and has no more than some tokens. Nor is there one of a
        module that has to look at numbers of the device to go on.
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
        """Record the calls of every width, which no answer has to wait for then."""
        for width in reversed(_WIDTHS):  # what the widest takes, the others find
            if self._is_able and width not in self._graphs:
                with torch.cuda.device(self._device):
                    self._sent.synchronize()
                    self._inputs.clear(width)
                    self._sent.record()
                    self._record(width)

    @torch.inference_mode()
    def _record(self, width: int) -> bool:
        """Record the call of a width, by inputs that are filled; whether that was possible."""
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
                call()  # compiles kernels, and takes memory that is not the graph's
            torch.cuda.current_stream().wait_stream(beside)
            # Another thread may ask a device for what cannot be recorded meanwhile.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=beside, capture_error_mode="thread_local"
            ):
                call()
        # A module is foreign code: what cannot be recorded ends in any error of torch, as does
        # want of memory.
        except RuntimeError as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            _log.warning("%s is called without graphs: %s", type(self._module).__name__, reason)
            self._is_able = False
            return False
        self._graphs[width] = graph
        return True
