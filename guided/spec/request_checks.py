"""Which options of a request go together: every contradiction is an error that names an option."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from guided.errors import RequestError
from guided.spec.constraints import JsonSchema
from guided.spec.prompt import TokenPrompt
from guided.spec.sampling import Sampling
from guided.spec.stored import Stored

if TYPE_CHECKING:
    from guided.spec.request import GenerationRequest

__all__ = ["check_beams", "check_continued", "check_drawing", "check_read_as_given", "check_shown"]


def check_shown(request: GenerationRequest) -> None:
    """Raise RequestError if there is no schema to show, or no message to show it in."""
    if not isinstance(request.prompt, tuple):
        raise RequestError(
            "show_schema needs messages",
            field="show_schema",
            hint="pass the prompt as messages, or write the schema into it",
        )
    if request.constraint is None:
        raise RequestError("show_schema needs a constraint", field="show_schema")
    # What a stored constraint is, only the server knows; it checks again.
    if not isinstance(request.constraint, JsonSchema | Stored):
        raise RequestError("show_schema needs a JSON Schema", field="show_schema")


def check_read_as_given(request: GenerationRequest) -> None:
    """Raise RequestError for options on how a text becomes tokens, beside tokens."""
    if not isinstance(request.prompt, TokenPrompt):
        return
    if request.heal:
        raise RequestError(
            "heal writes the end of a text in other tokens, and the prompt is tokens",
            field="heal",
            hint="leave it out, or pass the prompt as a text",
        )
    if request.allow_special_tokens is not None:
        raise RequestError(
            "allow_special_tokens is for texts, and the prompt is tokens, which are read as given",
            field="allow_special_tokens",
            hint="leave it out, or pass the prompt as a text",
        )


def check_continued(request: GenerationRequest) -> None:
    """Raise RequestError for a last message that cannot be continued, or nothing to heal."""
    thinks = request.reasoning is not None and not request.reasoning.is_off
    if request.continue_final_message:
        _check_last_message(request)
        if request.tools is not None:
            raise RequestError(
                "a message that may call tools is not continued: a call in it may have begun",
                field="continue_final_message",
                hint="leave out tools, or end the conversation with a message of the user",
            )
        if thinks:
            raise RequestError(
                "a message that has begun comes after its thoughts",
                field="reasoning",
                hint="leave it out; thoughts before the message are its reasoning",
            )
    elif request.heal:
        if not isinstance(request.prompt, str):
            raise RequestError(
                "heal is for texts that are continued, and this conversation is answered",
                field="heal",
                hint="leave it out, or set continue_final_message",
            )
        if request.reasoning is not None:
            raise RequestError(
                "heal is for texts that the answer continues, and here thoughts come between",
                field="heal",
                hint="leave heal or reasoning out",
            )


def _check_last_message(request: GenerationRequest) -> None:
    if not isinstance(request.prompt, tuple):
        raise RequestError(
            "continue_final_message needs messages; a plain text is continued in any case",
            field="continue_final_message",
            hint="leave it out, or pass the prompt as messages",
        )
    last = request.prompt[-1]
    if last.role != "assistant":
        raise RequestError(
            f"the last message has the role {last.role!r}, and only the assistant's is continued",
            field="continue_final_message",
            hint="add the beginning of the answer as a message of the assistant",
        )
    if last.tool_calls:
        raise RequestError(
            "the last message ends with calls of tools, after which nothing is continued",
            field="continue_final_message",
            hint="add the results of the calls, and leave continue_final_message out",
        )
    if not last.content.strip():
        raise RequestError(
            "the last message is empty, so there is nothing to continue",
            field="continue_final_message",
            hint="leave out the message and continue_final_message",
        )


def check_drawing(request: GenerationRequest) -> None:
    """Raise RequestError if several drawn answers would all be the same."""
    if request.sampling.is_contrastive:
        raise RequestError(
            f"contrastive search gives one answer, not {request.drawn}",
            field="sampling.penalty_alpha",
            hint="leave penalty_alpha out, or ask for one answer",
        )
    if request.sampling.temperature == 0:
        raise RequestError(
            f"{request.drawn} answers of temperature 0 are all the same",
            field="sampling.temperature",
            hint="set a temperature, or ask for beams",
        )


def check_beams(request: GenerationRequest) -> None:
    """Raise RequestError for options that have no part in beams."""
    for each in fields(Sampling):
        if getattr(request.sampling, each.name) != each.default:
            raise RequestError(
                f"{each.name} does not apply to beams, which keep the likeliest beginnings",
                field=f"sampling.{each.name}",
                hint="leave it out, or draw answers with n and best_of",
            )
    for name in ("stop", "stop_tokens", "top_logprobs", "min_tokens"):
        if getattr(request, name) not in ((), None):
            raise RequestError(
                f"{name} is not known to beams", field=name, hint="leave it or the beams out"
            )
