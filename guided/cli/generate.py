"""The command ``guided generate``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from guided.cli.candidate_flags import (
    BeamsFlag,
    BestOfFlag,
    CountFlag,
    EarlyStoppingFlag,
    LengthPenaltyFlag,
    RankFlag,
    read_beams,
)
from guided.cli.examples import shown_with
from guided.cli.grammar_flags import (
    ChoiceFlag,
    GrammarFlag,
    RegexFlag,
    read_grammar_flags,
)
from guided.cli.json_flags import (
    DocumentFlag,
    FormatFlag,
    KeyOrderFlag,
    NumberDigitsFlag,
    SpellingFlag,
    StringLengthFlag,
    WhitespaceFlag,
    read_documents,
    read_json_options,
)
from guided.cli.logprob_lines import logprob_lines
from guided.cli.prompt_flags import MessagesFlag, PromptFlag, SystemFlag, read_prompt_flags
from guided.cli.sampling_flags import (
    EpsilonCutoffFlag,
    EtaCutoffFlag,
    FrequencyPenaltyFlag,
    IncludeStopFlag,
    LogitBiasFlag,
    MinPFlag,
    NoRepeatFlag,
    PenaltyAlphaFlag,
    PresencePenaltyFlag,
    RepetitionPenaltyFlag,
    SeedFlag,
    StopFlag,
    StopTokenFlag,
    TemperatureFlag,
    TopKFlag,
    TopLogprobsFlag,
    TopPFlag,
    TypicalPFlag,
    read_logit_bias,
)
from guided.cli.schema_file import read_schema_file
from guided.cli.template_flags import HoleFlag, TemplateFlag, read_template_flags
from guided.cli.tool_flags import (
    SingleCallFlag,
    ToolChoiceFlag,
    ToolsFlag,
    read_tool_flags,
)
from guided.spec import (
    Forcing,
    FormatMode,
    JsonOptions,
    KeyOrder,
    OnIncomplete,
    Rank,
    Spelling,
    Structure,
)
from guided.spec.tagged import Calls

if TYPE_CHECKING:
    from guided.client import Answer, Client
    from guided.client.prompt import Prompt

__all__ = ["generate"]

_DEFAULT = JsonOptions()


@shown_with(
    'guided generate --schema ticket.json --prompt "Card payments fail."',
    "guided generate --schema ticket.json --prompt - < mail.txt",
    "guided generate --regex '[A-Z]{3}-[0-9]+' --system rules.txt --prompt \"A ticket number?\"",
    "guided generate --messages conversation.json --choice yes --choice no",
)
def generate(
    prompt: PromptFlag = None,
    system: SystemFlag = None,
    messages: MessagesFlag = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="File with a JSON Schema for the answer.", exists=True, dir_okay=False),
    ] = None,
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
    max_tokens: Annotated[int, typer.Option(help="Budget of the answer in tokens.")] = 256,
    temperature: TemperatureFlag = 0.0,
    top_k: TopKFlag = None,
    top_p: TopPFlag = None,
    min_p: MinPFlag = None,
    typical_p: TypicalPFlag = None,
    epsilon_cutoff: EpsilonCutoffFlag = None,
    eta_cutoff: EtaCutoffFlag = None,
    repetition_penalty: RepetitionPenaltyFlag = 1.0,
    presence_penalty: PresencePenaltyFlag = 0.0,
    frequency_penalty: FrequencyPenaltyFlag = 0.0,
    no_repeat_ngram_size: NoRepeatFlag = None,
    penalty_alpha: PenaltyAlphaFlag = None,
    logit_bias: LogitBiasFlag = None,
    seed: SeedFlag = None,
    stop: StopFlag = None,
    stop_token: StopTokenFlag = None,
    include_stop: IncludeStopFlag = False,
    top_logprobs: TopLogprobsFlag = None,
    n: CountFlag = 1,
    best_of: BestOfFlag = None,
    rank: RankFlag = Rank.LIKELIHOOD,
    beams: BeamsFlag = None,
    length_penalty: LengthPenaltyFlag = None,
    early_stopping: EarlyStoppingFlag = False,
    forcing: Annotated[
        Forcing, typer.Option(help="Which tokens are taken without asking the model.")
    ] = Forcing.CANONICAL,
    show_schema: Annotated[bool, typer.Option(help="Tell the model the schema.")] = False,
    whitespace: WhitespaceFlag = str(_DEFAULT.whitespace),
    key_order: KeyOrderFlag = KeyOrder.SCHEMA,
    format_mode: FormatFlag = FormatMode.ASSERT,
    spelling: SpellingFlag = Spelling.CANONICAL,
    max_string_length: StringLengthFlag = str(_DEFAULT.max_string_length),
    max_number_digits: NumberDigitsFlag = str(_DEFAULT.max_number_digits),
    document: DocumentFlag = None,
    priority: Annotated[
        int, typer.Option(help="The smaller, the earlier it is served where it has to wait.")
    ] = 0,
    deadline: Annotated[
        float | None,
        typer.Option(help="Seconds after which an answer that is not complete is closed."),
    ] = None,
    on_incomplete: Annotated[
        OnIncomplete,
        typer.Option(help="What becomes of an answer that its budget or deadline would close."),
    ] = OnIncomplete.CLOSE,
    cache_salt: Annotated[
        str, typer.Option(help="Share beginnings of prompts with requests of this salt alone.")
    ] = "",
    stream: Annotated[bool, typer.Option(help="Print the text as it grows.")] = False,
) -> None:
    """Ask a server for an answer, which may be held to a schema, a grammar or a pattern.

    The text of the answer goes to standard output, what it cost to standard error.
    """
    from guided.client import Client

    asked = read_prompt_flags(prompt, system, messages)
    options = read_json_options(
        whitespace, key_order, format_mode, spelling, max_string_length, max_number_digits
    )
    constraint = _only_one(
        read_grammar_flags(grammar, regex, choice),
        read_template_flags(template, hole, options),
        read_tool_flags(tools, tool_choice, options, single=single_call),
    )
    with Client(address) as client:
        ask = partial(
            _ask,
            client,
            asked,
            stream=stream,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical_p=typical_p,
            epsilon_cutoff=epsilon_cutoff,
            eta_cutoff=eta_cutoff,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            no_repeat_ngram_size=no_repeat_ngram_size,
            penalty_alpha=penalty_alpha,
            logit_bias=read_logit_bias(logit_bias),
            seed=seed,
            stop=stop or (),
            stop_tokens=stop_token or (),
            include_stop=include_stop,
            top_logprobs=top_logprobs,
            n=n,
            best_of=best_of,
            rank=rank,
            beams=read_beams(beams, length_penalty, early_stopping=early_stopping),
            forcing=forcing,
            grammar=constraint,
            show_schema=show_schema,
            # A template and tools have taken them.
            json_options=options if template is None and tools is None else _DEFAULT,
            documents=read_documents(document),
            priority=priority,
            deadline=deadline,
            on_incomplete=on_incomplete,
            cache_salt=cache_salt,
        )
        answer = ask() if schema is None else ask(schema=read_schema_file(schema))
    for candidate in answer.candidates:
        if not stream:
            typer.echo(candidate.text)
        if candidate.logprobs:
            typer.echo("\n".join(logprob_lines(candidate.logprobs)), err=True)
        if candidate.score is not None:
            typer.echo(f"score {candidate.score:.4f}, {candidate.finish_reason.value}", err=True)
    usage = answer.usage
    Console(stderr=True).print(
        f"{answer.finish_reason.value}: {usage.output_tokens} tokens"
        f" ({usage.forced_tokens} forced), {usage.model_calls} model calls,"
        f" {answer.seconds:.2f} s",
        style="dim",
        highlight=False,
    )


def _only_one(*constraints: Structure | None) -> Structure | None:
    given = [constraint for constraint in constraints if constraint is not None]
    if len(given) > 1:
        raise typer.BadParameter("a grammar, --template and --tools exclude each other")
    return given[0] if given else None


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
