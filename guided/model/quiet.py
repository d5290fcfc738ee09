"""Keeping the progress bars of transformers from mixing with our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["quiet_transformers"]


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Switch off the bars that transformers draws while it loads, converts or saves a model.

    Those of downloads from the hub stay: nobody else says how far they are.
    """
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    def without_bar(bar: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return bar(*args, **(options | {"disable": True}))

    def plain(items: Iterable[Any], **_options: Any) -> Iterable[Any]:
        return items

    hook = logging.set_tqdm_hook(without_bar)
    # Reading GGUF does not go through the hook.
    bar = vars(modeling_gguf_pytorch_utils)["tqdm"]
    vars(modeling_gguf_pytorch_utils)["tqdm"] = plain
    try:
        yield
    finally:
        vars(modeling_gguf_pytorch_utils)["tqdm"] = bar
        logging.set_tqdm_hook(hook)
