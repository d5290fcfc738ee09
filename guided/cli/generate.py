"""The command ``guided generate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from guided.cli.common import read_text, shown_with
from guided.cli.constraint_flags import (
    ChoiceFlag,
    GrammarFlag,
    HoleFlag,
    RegexFlag,
    SingleCallFlag,
    TemplateFlag,
    ToolChoiceFlag,
    ToolsFlag,
    only_one,
    read_grammar_flags,
    read_template_flags,
    read_tool_flags,
)
from guided.cli.flags import (
    DocumentFlag,
    json_flags,
    read_documents,
    read_json_options,
    read_request_flags,
    request_flags,
    with_flags,
)
from guided.cli.prompt_flags import MessagesFlag, PromptFlag, SystemFlag, read_prompt_flags
from guided.spec import JsonOptions, TokenLogprobs
from guided.spec.tagged import Calls

if TYPE_CHECKING:
    from guided.client import Answer, Client
    from guided.client.prompt import Prompt

__all__ = ["generate", "logprob_lines"]


@shown_with(
    'guided generate --schema ticket.json --prompt "Card payments fail."',
    "guided generate --schema ticket.json --prompt - < mail.txt",
    "guided generate --regex '[A-Z]{3}-[0-9]+' --system rules.txt --prompt \"A ticket number?\"",
    "guided generate --messages conversation.json --choice yes --choice no",
)
@with_flags(*request_flags(), *json_flags())
def generate(
    prompt: PromptFlag = None,
    system: SystemFlag = None,
    messages: MessagesFlag = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="File with a JSON Schema for the answer.", exists=True, dir_okay=False),
    ] = None,
    document: DocumentFlag = None,
    grammar: GrammarFlag = None,
    regex: RegexFlag = None,
    choice: ChoiceFlag = None,
    template: TemplateFlag = None,
    hole: HoleFlag = None,
    tools: ToolsFlag = None,
    tool_choice: ToolChoiceFlag = Calls.AUTO,
    single_call: SingleCallFlag = False,
    address: Annotated[
        str, typer.Option(help="Where `guided serve` listens.", envvar="GUIDED_ADDRESS")
    ] = "localhost:50051",
    stream: Annotated[bool, typer.Option(help="Print the text as it grows.")] = False,
    **flags: Any,
) -> None:
    """Ask a server for an answer, which may be held to a schema, a grammar or a pattern.

    The text of the answer goes to standard output, what it cost to standard error.
    """
    from guided.client import Client

    asked = read_prompt_flags(prompt, system, messages)
    json_options = read_json_options(flags)
    options = read_request_flags(flags)
    options["grammar"] = only_one(
        read_grammar_flags(grammar, regex, choice),
        read_template_flags(template, hole, json_options),
        read_tool_flags(tools, tool_choice, json_options, single=single_call),
    )
    # A template and tools have taken them.
    if template is not None or tools is not None:
        json_options = JsonOptions()
    options |= {"json_options": json_options, "documents": read_documents(document)}
    if schema is not None:
        options["schema"] = read_text(schema)
    with Client(address) as client:
        answer = _ask(client, asked, stream=stream, **options)
    _print_answer(answer, with_text=not stream)


def _print_answer(answer: Answer[Any], *, with_text: bool) -> None:
    for candidate in answer.candidates:
        if with_text:
            typer.echo(candidate.text)
        if candidate.logprobs:
            typer.echo("\n".join(logprob_lines(candidate.logprobs)), err=True)
        if candidate.score is not None:
            typer.echo(f"score {candidate.score:.4f}, {candidate.finish_reason.value}", err=True)
    usage = answer.usage
    drafted = "".join(
        f", {one.accepted_tokens} drafted by {one.name}"
        for one in usage.by_drafter
        if one.accepted_tokens
    )
    Console(stderr=True).print(
        f"{answer.finish_reason.value}: {usage.output_tokens} tokens"
        f" ({usage.forced_tokens} forced{drafted}), {usage.model_calls} model calls,"
        f" {answer.seconds:.2f} s",
        style="dim",
        highlight=False,
    )


def _ask(client: Client, prompt: Prompt, *, stream: bool, **options: Any) -> Answer[Any]:
    """The answer; its text is printed as it grows where it is streamed."""
    if not stream:
        # Shown in a terminal only, and gone when the answer is there.
        with Console(stderr=True).status("waiting for the answer"):
            return client.generate(prompt, **options)
    with client.stream(prompt, **options) as pieces:
        for text in pieces:
            typer.echo(text, nl=False)
        typer.echo()
        return pieces.answer


def logprob_lines(logprobs: Iterable[TokenLogprobs]) -> Iterator[str]:
    """A heading, then one line for each token, with the likeliest allowed tokens at its end."""
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
