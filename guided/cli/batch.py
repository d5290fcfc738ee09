"""The command ``guided batch``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from guided.cli.batch_requests import BatchLine, Key, digests_of, read_lines
from guided.cli.batch_results import Results, opened_results
from guided.cli.common import shown_with
from guided.cli.connection_flags import connection_flags, read_connection_flags
from guided.cli.flags import with_flags
from guided.errors import GuidedError, RequestError

if TYPE_CHECKING:
    from guided.client import Client, Request

__all__ = ["batch"]


@shown_with(
    "guided batch tickets.jsonl answers.jsonl",
    """echo '{"prompt": "A colour?", "choice": ["red", "blue"]}' > colours.jsonl""",
    "guided batch colours.jsonl answers.jsonl --timeout 60",
)
@with_flags(*connection_flags())
def batch(
    requests: Annotated[
        Path,
        typer.Argument(
            metavar="IN.jsonl", help="File with one request per line.", exists=True, dir_okay=False
        ),
    ],
    results: Annotated[
        Path,
        typer.Argument(
            metavar="OUT.jsonl", help="File for the results, one per line.", dir_okay=False
        ),
    ],
    address: Annotated[
        str, typer.Option(help="Address of the server.", envvar="GUIDED_ADDRESS")
    ] = "localhost:50051",
    timeout: Annotated[
        float, typer.Option(help="Seconds allowed for each request, from when it is sent.")
    ] = 600.0,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Maximum number of requests in flight.")
    ] = 128,
    **flags: Any,
) -> None:
    """Have a server answer a file of requests, and continue where an earlier run ended.

    A request is a JSON object with prompt, messages, raw_prompt or tokens; schema, regex, choice or
    grammar ({"lark": TEXT} or {"ebnf": TEXT}); optionally an id; and any option of the client, such
    as max_tokens. All lines are checked before anything is sent. Results are written in the order
    in which they finish, each with the line number and the id of its request. The exit status is 1
    if any request failed; run the command again to retry those.
    """
    from guided.client import Client

    digests = digests_of(requests)
    with (
        opened_results(results) as opened,
        Client(
            address, timeout=timeout, concurrency=concurrency, **read_connection_flags(flags)
        ) as client,
    ):
        _check_same(digests, opened, requests, results)
        tally = _ask(client, requests, opened, total=len(digests))
    _tell(tally, total=len(digests), before=len(opened.answered), results=results)
    if tally.answers < len(digests):
        raise typer.Exit(1)


def _check_same(digests: dict[Key, str], opened: Results, requests: Path, results: Path) -> None:
    """Raise ``RequestError`` if an existing answer belongs to a different request."""
    for key, digest in opened.answered.items():
        if digests.get(key) != digest:
            name = f"line {key}" if isinstance(key, int) else repr(key)
            raise RequestError(
                f"{results} has an answer to {name}, but that request has changed in {requests}",
                hint="choose another file for results",
            )


@dataclass(slots=True)
class _Tally:
    """What the file of results holds."""

    answers: int
    errors: int = 0
    first_error: str = ""
    """Its line and its message."""


def _ask(client: Client, requests: Path, opened: Results, total: int) -> _Tally:
    """Write a result for each request without an answer."""
    tally = _Tally(len(opened.answered))
    asked: dict[int, BatchLine] = {}
    with (
        closing(client.as_completed(_unanswered(requests, opened, asked))) as completed,
        _bar() as bar,
    ):
        shown = bar.add_task("", total=total, completed=tally.answers, failed="")
        for one in completed:
            line = asked.pop(one.index, None)
            if line is None:  # the requests cannot be read any more
                raise cast("GuidedError", one.outcome)
            opened.write(line, one.outcome)
            if isinstance(one.outcome, GuidedError):
                tally.errors += 1
                tally.first_error = tally.first_error or f"line {line.number}: {one.outcome}"
                bar.update(shown, failed=f"[red]{tally.errors} failed")
            else:
                tally.answers += 1
            bar.advance(shown)
    return tally


def _unanswered(
    requests: Path, opened: Results, asked: dict[int, BatchLine]
) -> Iterator[Request[Any]]:
    """Yield the requests without an answer, and note each by its place among them."""
    index = 0
    for line in read_lines(requests):
        if line.key not in opened.answered:
            asked[index] = line
            index += 1
            yield line.request


def _bar() -> Progress:
    """Return a progress bar, shown only in a terminal."""
    console = Console(stderr=True)
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _tell(tally: _Tally, *, total: int, before: int, results: Path) -> None:
    parts = [f"{tally.answers} of {total} requests have answers"]
    if before:
        parts.append(f"{before} had them before")
    if tally.errors:
        parts.append(f"{tally.errors} failed; run it again to ask for them")
    console = Console(stderr=True, soft_wrap=True)
    console.print(", ".join(parts), style="dim", highlight=False)
    if tally.errors:
        console.print(Text.assemble(("error: ", "bold red"), tally.first_error))
    if tally.errors > 1:
        console.print(Text(f"and {tally.errors - 1} more errors, which {results} has", style="dim"))
