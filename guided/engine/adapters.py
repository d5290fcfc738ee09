"""The LoRA adapters of an engine, under the names that requests use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from guided.errors import RequestError
from guided.model.adapter import Adapter, read_adapter
from guided.model.progress import Progress

__all__ = ["AdapterNames", "load_adapters"]

_MAX_NAME_LENGTH = 128


class AdapterNames:
    """Numbers the adapters of an engine from 1; 0 is the model alone."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        for name in names:
            _check_name(name)
        self._numbers = {name: number for number, name in enumerate(names, 1)}

    def number_of(self, name: str) -> int:
        """Return the number of an adapter, from 1; 0 for no name, the model alone.

        Raises RequestError for an adapter that the engine does not have.
        """
        if not name:
            return 0
        number = self._numbers.get(name)
        if number is None:
            known = ", ".join(map(repr, self._numbers)) or "none, as the server was given none"
            raise RequestError(
                f"adapter is {name!r:.80}, but the server has {known}",
                field="adapter",
                hint="name one of these, or leave adapter out for the model alone",
            )
        return number


def load_adapters(
    folders: Mapping[str, str | Path], model: str | None, progress: Progress
) -> tuple[Adapter, ...]:
    """Read the adapters in these folders, keyed by name, in their order.

    Raises RequestError for a name that is empty, too long or the name of the ``model``, and
    ModelError for a folder without a supported adapter.
    """
    for name in folders:
        _check_name(name, model)
    found: list[Adapter] = []
    for name, folder in folders.items():
        with progress.step(f"reading adapter {name} in {Path(folder).name}"):
            found.append(read_adapter(name, folder))
    return tuple(found)


def _check_name(name: str, model: str | None = None) -> None:
    """Raise RequestError for a name that is not printable, too long, or that of the model."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH or not name.isprintable():
        raise RequestError(
            f"{name!r:.200} is no name of an adapter",
            field="adapters",
            hint=f"give it 1 to {_MAX_NAME_LENGTH} letters, and a folder: NAME=FOLDER",
        )
    if name in (model, "default"):
        raise RequestError(
            f"an adapter has the same name as the model, {name!r}",
            field="adapters",
            hint="give it a name of its own: over HTTP both are requested by name",
        )
