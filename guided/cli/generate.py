"""The command ``guided generate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from guided.cli.asked_flags import asked_flags, read_asked_flags
from guided.cli.common import shown_with
from guided.cli.connection_flags import connection_flags, read_connection_flags
from guided.cli.flags import with_flags
from guided.spec import TokenLogprobs

if TYPE_CHECKING:
    from guided.client import Answer, Client
    from guided.client.prompt import Prompt

__all__ = ["generate", "logprob_lines"]


@shown_with(
    'guided generate --schema ticket.json --prompt "Card payments fail."',
    "guided generate --schema shop.models:Ticket --prompt - < mail.txt",
    "guided generate --regex '[A-Z]{3}-[0-9]+' --system rules.txt --prompt \"A ticket number?\"",
    "guided generate --messages conversation.json --choice yes --choice no",
    'guided generate --schema verdict.json --reasoning 200 --prompt "Can 221 be prime?"',
    "guided generate --address model.example:443 --tls --token-file token.txt --prompt Hi",
)
@with_flags(*asked_flags(), *connection_flags())
def generate(
    address: Annotated[
        str, typer.Option(help="Address of the server.", envvar="GUIDED_ADDRESS")
    ] = "localhost:50051",
    stream: Annotated[bool, typer.Option(help="Print the text as it arrives.")] = False,
    **flags: Any,
) -> None:
    """Request an answer from a server, optionally constrained by a schema, grammar or pattern.

    Prints the text of the answer to standard output; its cost, and any thoughts of the model before
    it, to standard error. Exits with status 1 if the validators of a Python type refuse the answer.
    """
    from guided.client import Client

    asked, options = read_asked_flags(flags)
    with Client(address, **read_connection_flags(flags)) as client:
        answer, is_printed = _ask(client, asked, stream=stream, **options)
    _print_answer(answer, with_text=not is_printed)


def _print_answer(answer: Answer[Any], *, with_text: bool) -> None:
    for candidate in answer.candidates:
        if with_text:
            if candidate.reasoning:
                typer.echo(candidate.reasoning, err=True)
            typer.echo(candidate.text)
        if candidate.logprobs:
            typer.echo("\n".join(logprob_lines(candidate.logprobs)), err=True)
        if candidate.score is not None:
            typer.echo(f"score {candidate.score:.4f}, {candidate.finish_reason.value}", err=True)
    if answer.report is not None:
        # Imported here: the tables belong to a command that needs more.
        from guided.cli.check import print_report

        print_report(answer.report, stderr=True)
    usage = answer.usage
    thoughts = f"{usage.reasoning_tokens} of thoughts, " if usage.reasoning_tokens else ""
    drafted = "".join(
        f", {one.accepted_tokens} drafted by {one.name}"
        for one in usage.by_drafter
        if one.accepted_tokens
    )
    Console(stderr=True, soft_wrap=True).print(
        f"{answer.finish_reason.value}: {usage.output_tokens} tokens"
        f" ({thoughts}{usage.forced_tokens} forced{drafted}), {usage.model_calls} model calls,"
        f" {answer.verification.value} verification, {answer.seconds:.2f} s",
        style="dim",
        highlight=False,
    )


def _ask(
    client: Client, prompt: Prompt, *, stream: bool, **options: Any
) -> tuple[Answer[Any], bool]:
    """Return the answer, and whether its text was printed as it grew, which several do not."""
    if not stream:
        # Shown only in a terminal, and removed when the answer comes.
        with Console(stderr=True).status("waiting for the answer"):
            return client.generate(prompt, **options), False
    with client.stream(prompt, **options) as pieces:
        is_printed = _show_thoughts(pieces.thoughts())
        for text in pieces:
            typer.echo(text, nl=False)
            is_printed = True
        if is_printed:
            typer.echo()
        return pieces.answer, is_printed


def _show_thoughts(thoughts: Iterable[str]) -> bool:
    """Print thoughts as they grow, then a line break; returns whether there are any."""
    thought = ""
    for thought in thoughts:
        typer.echo(thought, nl=False, err=True)
    if thought:
        typer.echo(err=True)
    return bool(thought)


def logprob_lines(logprobs: Iterable[TokenLogprobs]) -> Iterator[str]:
    """Yield a heading, then one line for each token, ending with the likeliest allowed tokens."""
    yield f"{'token':>8} {'raw':>9} {'masked':>9}  text"
    for one in logprobs:
        if one.raw is None or one.masked is None:
            numbers = f"{'forced':>9} {'':>9}"
        else:
            numbers = f"{one.raw:9.4f} {one.masked:9.4f}"
        line = f"{one.token:8} {numbers}  {_shown(one.text)}"
        likeliest = ", ".join(f"{_shown(other.text)} {other.masked:.4f}" for other in one.top)
        yield f"{line}  ({likeliest})" if likeliest else line


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="backslashreplace")) if text else "(end)"
