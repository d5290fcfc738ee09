"""What surrounds calls of transformers: its errors become ours, and its bars do not show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guided.errors import ModelError
from guided.masks.described_tokenizer import is_tokenizer_error

__all__ = ["quiet_transformers", "reading"]

_LOADING = "Loading weights"


@contextmanager
def reading(part: str, source: Path | str) -> Iterator[None]:
    """Turn the errors of transformers reading a part of a model into ``ModelError``."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, StrictDataclassError
    from safetensors import SafetensorError

    # What its readers raise on broken or foreign files, by experiment.
    known = (
        *(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError),
        *(SafetensorError, HfHubHTTPError, HFValidationError, StrictDataclassError),
    )
    try:
        yield
    except BaseException as error:
        if not is_tokenizer_error(error) and not isinstance(error, known):
            raise
        if isinstance(source, Path) and source.is_file():
            hint = "check that the file is complete"
        elif isinstance(source, Path):
            hint = "check that the folder is complete and was saved by transformers"
        else:
            hint = "check the id and the network, or name a model folder instead"
        if isinstance(error, ImportError):
            hint = "install the package that it asks for"
        raise ModelError(
            f"cannot read the {part} of {source}: {_gist(error)}", hint=hint
        ) from error


def _gist(error: BaseException) -> str:
    """Return the first line of a message, and the second if the first introduces it."""
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    return f"{first} {others[0].strip()}" if others and first.endswith(":") else first


@contextmanager
def quiet_transformers(share_done: Callable[[float], None] | None = None) -> Iterator[None]:
    """Switch off the bars that transformers draws while it loads, converts or saves a model.

    Bars of downloads from the hub stay: nothing else shows their progress. ``share_done`` receives
    the share of the tensors that has been unpacked or loaded, from 0 to 1.
    """
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    def count_tensors(tensors: Iterable[Any], **_options: Any) -> Iterable[Any]:
        every = list(tensors)
        for done, tensor in enumerate(every, 1):
            yield tensor
            if share_done is not None:
                share_done(done / len(every))

    def hide_bar(bar: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if options.get("desc") == _LOADING:
            return count_tensors(*args)
        return bar(*args, **(options | {"disable": True}))

    hook = logging.set_tqdm_hook(hide_bar)
    # Reading GGUF does not go through the hook.
    bar = vars(modeling_gguf_pytorch_utils)["tqdm"]
    vars(modeling_gguf_pytorch_utils)["tqdm"] = count_tensors
    try:
        yield
    finally:
        vars(modeling_gguf_pytorch_utils)["tqdm"] = bar
        logging.set_tqdm_hook(hook)
