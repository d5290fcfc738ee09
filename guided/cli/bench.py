"""The command ``guided bench``, with its progress on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from guided.cli.common import DeviceFlag, DtypeFlag, ModelFlag, ThreadsFlag, shown_with
from guided.cli.connection_flags import connection_flags, read_connection_flags
from guided.cli.flags import with_flags
from guided.errors import RequestError
from guided.extras import needing
from guided.model.progress import counting_bars
from guided.runtime.environment import prepare_environment

if TYPE_CHECKING:
    from guided.bench import Target
    from guided.bench.compare import Tell

__all__ = ["bench"]

_PICTURES = (".png", ".svg", ".pdf")


@shown_with(
    "guided bench",
    "guided bench --model Qwen/Qwen3-0.6B --dtype int8 --concurrency 8",
    "guided bench --drafters --heads medusa --draft-model small --plot drafters.svg",
    "guided bench --address localhost:50051 --workload mine.jsonl --json figures.json",
    "guided bench --drafters --concurrency 1 --rounds 3 --temperature 0 --temperature 0.7",
)
@with_flags(*connection_flags())
def bench(
    workload: Annotated[
        Path | None,
        typer.Option(
            help="File of JSON lines with prompt, schema and max_tokens. Default: a small workload"
            " that comes with guided.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Number of requests at once.")] = 4,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of times that the workload is run.")
    ] = 1,
    plain: Annotated[
        bool, typer.Option(help="Also run the workload with masks alone, to show the speed-up.")
    ] = True,
    drafters: Annotated[
        bool,
        typer.Option("--drafters", help="Compare each drafter, all of them together, and none."),
    ] = False,
    temperature: Annotated[
        list[float] | None,
        typer.Option(help="With --drafters, a temperature to sample at; may be repeated.", min=0),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Measure the server at this address instead of an engine of its own."),
    ] = None,
    model: ModelFlag = None,
    dtype: DtypeFlag = None,
    device: DeviceFlag = "auto",
    threads: ThreadsFlag = None,
    draft_model: Annotated[
        list[str] | None, typer.Option(help="Smaller model that drafts; may be repeated.")
    ] = None,
    heads: Annotated[
        list[str] | None,
        typer.Option(help="Folder of heads for the model, which draft; may be repeated."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures and requests to this file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Plot the figures to this file (.png, .svg, .pdf).")
    ] = None,
    **connection: Any,
) -> None:
    """Measure how fast a model answers, with guided's shortcuts and without them.

    Runs a workload both ways on an engine of its own, or on a server, and prints the figures side
    by side. The small workload that comes with guided takes a minute or two. With --drafters, the
    workload is run without drafting, with each drafter alone and with all of them. For an engine of
    its own on the CPU, also reports what model calls cost, and how close they come to what the
    memory of this machine allows.
    """
    _check_plot(plot)
    own: dict[str, Any] = {"model": model, "dtype": dtype, "device": device, "threads": threads}
    own |= {"draft_models": tuple(draft_model or ()), "heads": tuple(heads or ())}
    _check_own(address, own)
    _check_temperature(temperature, drafters)
    with needing("guided bench", "client,compiler" if address else "server"):
        from guided.bench import read_workload
        from guided.cli import bench_reports as reports

    requests = read_workload(workload)
    with _opened(address, connection, own, concurrency) as target, _progress() as tell:
        how: dict[str, Any] = {"concurrency": concurrency, "rounds": rounds, "tell": tell}
        report = (
            reports.bench_drafters(target, requests, temperature or (0.0,), **how)
            if drafters
            else reports.bench_workload(target, requests, with_plain=plain, **how)
        )
        hardware = reports.measure_hardware(target)
    report.show()
    reports.show_hardware(hardware)
    if json_file is not None:
        report.write(json_file, hardware)
    if plot is not None:
        report.plot(plot)


@contextmanager
def _opened(
    address: str | None, connection: Mapping[str, Any], own: Mapping[str, Any], concurrency: int
) -> Iterator[Target]:
    """Open the server, or an engine without kept prefixes, so that requests are independent."""
    from guided.bench import InProcess, Remote

    if address is not None:
        from guided.client import Client

        with Client(address, **read_connection_flags(connection)) as client:
            yield Remote(client)
        return
    prepare_environment()
    from guided.engine import load_engine

    yield InProcess(load_engine(**own, max_batch=concurrency, reuse_prefixes=False))


def _check_own(address: str | None, own: Mapping[str, Any]) -> None:
    if address is not None and any(value not in (None, (), "auto") for value in own.values()):
        raise RequestError(
            "the server at --address has its model, dtype, device, threads and drafters already"
        )


def _check_temperature(temperature: list[float] | None, drafters: bool) -> None:
    if temperature and not drafters:
        raise RequestError("--temperature needs --drafters")


def _check_plot(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix not in _PICTURES:
        raise RequestError(f"--plot {str(path)!r} ends in none of {', '.join(_PICTURES)}")
    with needing("guided bench --plot", "bench"):
        import_module("matplotlib")


@contextmanager
def _progress() -> Iterator[Tell]:
    """Show a bar in a terminal, and elsewhere a line for each part of the workload.

    Yields a function that takes which part begins, and how many of them are done.
    """
    console = Console(stderr=True, soft_wrap=True)
    began = time.monotonic()

    def show(text: str) -> None:
        if not console.is_terminal:
            console.print(text, highlight=False)

    def tell(way: str, done: int, total: int) -> None:
        bars.update(task, description=way, completed=done, total=total)
        seconds = time.monotonic() - began
        show(f"{way}: part {done + 1} of {total}, after {seconds:.0f} s")

    with counting_bars(console, transient=True) as bars:
        task = bars.add_task("warming up", total=None)
        show("warming up")
        yield tell
