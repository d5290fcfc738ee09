"""The command ``guided inspect --generate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from guided.cli.asked_flags import asked_flags, read_asked_flags
from guided.cli.common import (
    DeviceFlag,
    DtypeFlag,
    ModelFlag,
    ThreadsFlag,
    shown_with,
    telling_of_compilation,
)
from guided.cli.flags import with_flags
from guided.errors import GuidedError, RequestError
from guided.extras import needing
from guided.runtime.environment import prepare_environment

if TYPE_CHECKING:
    from guided.decoding.trace import Trace, TracedStep
    from guided.engine import Engine
    from guided.spec import GenerationRequest, GenerationResult

__all__ = ["inspect_generate", "show_answer", "step_of"]


@shown_with(
    'guided inspect --generate --schema ticket.json --prompt "Card payments fail."',
    'guided inspect --generate --schema ticket.json --prompt "Card payments fail." --tree 3',
    "guided inspect --generate --regex '[0-9]{4}' --prompt \"Which year?\" --html answer.html",
)
@with_flags(*asked_flags())
def inspect_generate(
    tree: Annotated[
        list[int] | None,
        typer.Option(
            metavar="STEP",
            min=1,
            help="Draw the draft tree of this model call, counted from 1; may be repeated.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write everything to this file, as a page for a browser."),
    ] = None,
    model: ModelFlag = None,
    dtype: DtypeFlag = None,
    device: DeviceFlag = "auto",
    threads: ThreadsFlag = None,
    **flags: Any,
) -> None:
    """Generate an answer and show where each of its tokens came from.

    Tokens are forced, copied, drafted, corrected or sampled. The answer is generated in this
    process, without a server. With --tree, also shows what was drafted for a step, what the grammar
    refused of it, and what the model accepted.
    """
    asked, options = read_asked_flags(flags)
    if options["top_logprobs"] is None:
        options["top_logprobs"] = 0  # only the probabilities of the chosen tokens
    prepare_environment()
    # Imported here, so that the other commands need not wait for it.
    with needing("guided inspect --generate", "server"):
        from guided.client.request import Request
        from guided.engine import load_engine

    # Report a wrong request before loading a model for it.
    request = Request(asked, **options).specification
    with telling_of_compilation():
        engine = load_engine(model, dtype=dtype, device=device, threads=threads)
    show_answer(Console(), engine, request, tree or (), html)


def show_answer(
    console: Console,
    engine: Engine,
    request: GenerationRequest,
    steps: list[int] | tuple[int, ...],
    html: Path | None,
) -> None:
    """Make an answer and print where its tokens came from, with the trees of these steps."""
    from guided.decoding.trace import Trace
    from guided.inspection import (
        answer_view,
        branch_tree,
        legend_of,
        legend_view,
        origins,
        page,
        step_summary,
        summary,
        tree_view,
    )

    trace, vocabulary = Trace(), engine.vocabulary
    result = _answer(engine, request, trace)
    tokens = origins(result, trace, vocabulary.token_bytes)
    legend = legend_of(tokens)
    console.print(answer_view(tokens, legend))
    console.print(legend_view(legend))
    told = summary(result)
    console.print(told, highlight=False, soft_wrap=True)
    # The answer is shown in any case, as it shows which steps exist.
    trees = {}
    for number in steps:
        step = step_of(trace, number)
        trees[f"step {number}: {step_summary(step)}"] = branch_tree(step, vocabulary, tokens)
    for heading, tree in trees.items():
        console.print(f"\n{heading}", style="bold", highlight=False, soft_wrap=True)
        console.print(tree_view(tree))
    if html is not None:
        title = f"An answer of {engine.model_name}"
        html.write_text(page(title, told, tokens, legend, trees), encoding="utf-8")


def step_of(trace: Trace, number: int) -> TracedStep:
    """Return a step of a trace by its number, from 1; raises RequestError if it does not exist."""
    count = len(trace.steps)
    if not 1 <= number <= count:
        raise RequestError(
            f"there is no step {number}: the answer took {count} model calls", field="tree"
        )
    return trace.steps[number - 1]


def _answer(engine: Engine, request: GenerationRequest, trace: Trace) -> GenerationResult:
    engine.submit("inspected", request, trace=trace)
    while True:
        for finished in engine.step():
            if isinstance(finished.outcome, GuidedError):
                raise finished.outcome
            return finished.outcome
