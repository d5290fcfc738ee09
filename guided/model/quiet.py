"""Keeping the progress bars of transformers from mixing with our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["quiet_transformers"]

_LOADING = "Loading weights"


@contextmanager
def quiet_transformers(share_done: Callable[[float], None] | None = None) -> Iterator[None]:
    """Switch off the bars that transformers draws while it loads, converts or saves a model.

    Those of downloads from the hub stay: nobody else says how far they are. ``share_done`` is told
    how much of the tensors has been unpacked or loaded, from 0 to 1.
    """
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    def counted(tensors: Iterable[Any], **_options: Any) -> Iterable[Any]:
        every = list(tensors)
        for done, tensor in enumerate(every, 1):
            yield tensor
            if share_done is not None:
                share_done(done / len(every))

    def without_bar(bar: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if options.get("desc") == _LOADING:
            return counted(*args)
        return bar(*args, **(options | {"disable": True}))

    hook = logging.set_tqdm_hook(without_bar)
    # Reading GGUF does not go through the hook.
    bar = vars(modeling_gguf_pytorch_utils)["tqdm"]
    vars(modeling_gguf_pytorch_utils)["tqdm"] = counted
    try:
        yield
    finally:
        vars(modeling_gguf_pytorch_utils)["tqdm"] = bar
        logging.set_tqdm_hook(hook)
