"""The command ``guided inspect model``."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ByteSize, TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from guided.cli.common import DeviceFlag, DtypeFlag, shown_with
from guided.extras import needing

__all__ = ["inspect_model"]


@shown_with(
    "guided inspect model",
    "guided inspect model Qwen/Qwen3-0.6B --dtype int8",
    "guided inspect model model.gguf --kv-memory 2GiB",
    "guided inspect model Qwen/Qwen3-8B --tensor-parallel 2",
    "guided inspect model Qwen/Qwen3-8B --pipeline-parallel 2",
)
def inspect_model(
    model: Annotated[
        str, typer.Argument(help="Hub id, folder or GGUF file; 'default' is the default model.")
    ] = "default",
    dtype: DtypeFlag = None,
    device: DeviceFlag = "auto",
    cache_tokens: Annotated[
        int | None,
        typer.Option(help="Maximum number of tokens that all running requests hold together."),
    ] = None,
    kv_memory: Annotated[
        str | None,
        typer.Option(help="Memory for keys and values, e.g. 2GiB, instead of --cache-tokens."),
    ] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(help="Format in which keys and values are kept: int8.")
    ] = None,
    tensor_parallel: Annotated[
        int,
        typer.Option(
            min=1, help="Number of ranks: processes that each hold a share of every layer."
        ),
    ] = 1,
    pipeline_parallel: Annotated[
        int, typer.Option(min=1, help="Number of ranks that each hold some whole layers instead.")
    ] = 1,
) -> None:
    """Report whether a model would run here, and how much memory it would take.

    Exits with status 1 if it would not run. Reads no weights, but fetches a model that is not on
    this machine yet, and converts one that has to be converted.
    """
    # Imported here, so that the other commands need not wait for it.
    with needing("guided inspect model", "server"):
        from guided.engine.formats import format_notes
        from guided.engine.load import inspect_memory
        from guided.model.device import choose_device

    found, plan = inspect_memory(
        model,
        dtype=dtype,
        device=device,
        cache_tokens=cache_tokens,
        kv_memory=_nbytes(kv_memory),
        kv_dtype=kv_dtype,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
    )
    console = Console(soft_wrap=True)
    console.print(
        f"{found.name}: {', '.join(found.config.architectures or [found.config.model_type])}, "
        f"{len(found.layers)} layers, context of {found.context_window:,} tokens",
        highlight=False,
        markup=False,
    )
    table = Table("memory", "", "")
    for line in plan.lines():
        table.add_row(*line)
    console.print(table)
    for name, told in format_notes(choose_device(device)):
        console.print(f"dtype {name} is {told}", highlight=False, markup=False)


def _nbytes(given: str | None) -> int | None:
    try:
        return None if given is None else TypeAdapter(ByteSize).validate_python(given)
    except ValidationError as error:
        raise typer.BadParameter(f"kv_memory: {error.errors()[0]['msg']}") from error
