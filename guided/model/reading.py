"""What can go wrong when transformers reads a part of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guided.errors import ModelError

__all__ = ["reading"]


@contextmanager
def reading(part: str, source: Path | str) -> Iterator[None]:
    """Turn what transformers raises while it reads a part of a model into ``ModelError``."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, StrictDataclassError
    from safetensors import SafetensorError

    try:
        yield
    except (
        # What its readers raise on broken or foreign files, by experiment.
        *(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError),
        *(SafetensorError, HfHubHTTPError, HFValidationError, StrictDataclassError),
    ) as error:
        if isinstance(source, Path) and source.is_file():
            hint = "check that the file is complete"
        elif isinstance(source, Path):
            hint = "check that the folder is complete and was saved by transformers"
        else:
            hint = "check the id and the network, or name a model folder instead"
        raise ModelError(
            f"cannot read the {part} of {source}: {_gist(error)}", hint=hint
        ) from error


def _gist(error: Exception) -> str:
    """The first line of a message, and the second where the first leads up to it."""
    first, *others = str(error).strip().splitlines() or [type(error).__name__]
    return f"{first} {others[0].strip()}" if others and first.endswith(":") else first
