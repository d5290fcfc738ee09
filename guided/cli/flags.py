"""Makes the flags of commands from options, each declared once in its dataclass.

A command takes them as further keyword arguments::

    @with_flags(*json_flags())
    def check(subject: str, **flags: Any) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

from guided.cli.common import read_text
from guided.spec import Beams, GenerationRequest, JsonOptions, Sampling
from guided.spec.json_options import UNBOUNDED
from guided.spec.option import options_of

__all__ = [
    "DocumentFlag",
    "file_flag",
    "flag",
    "json_flags",
    "read_beams",
    "read_documents",
    "read_json_options",
    "read_logit_bias",
    "read_request_flags",
    "request_flags",
    "with_flags",
]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How an option is spelled on the command line, if that differs from Python."""

    name: str | None = None
    kind: Any = None
    metavar: str | None = None


_SPELLINGS: Final[Mapping[str, _Spelling]] = {
    "beams": _Spelling(kind=int | None, metavar="WIDTH"),
    "draft_widths": _Spelling("--draft-width", list[int] | None, "N"),
    "drafters": _Spelling("--drafter", list[str] | None, "NAME"),
    "early_stopping": _Spelling("--early-stopping"),
    "length_penalty": _Spelling(kind=float | None),
    "logit_bias": _Spelling(kind=list[str] | None, metavar="TOKEN=BIAS"),
    "n": _Spelling("-n"),
    "stop": _Spelling(kind=list[str] | None, metavar="TEXT"),
    "stop_tokens": _Spelling("--stop-token", list[int] | None, "ID"),
    "whitespace": _Spelling(metavar="compact|free|unbounded|N"),
}

DocumentFlag: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--document",
        metavar="URI=FILE",
        help="Another schema that the schema refers to; may be repeated.",
    ),
]


def with_flags(*flags: Parameter) -> Callable[[Command], Command]:
    """Give a command further flags; its own take precedence over any of the same name.

    It receives them by ``**``.
    """

    def give(command: Any) -> Any:
        hints = get_type_hints(command, include_extras=True)
        own = [
            each.replace(annotation=hints[each.name])
            for each in inspect.signature(command).parameters.values()
            if each.kind is not Parameter.VAR_KEYWORD
        ]
        others = [each for each in flags if each.name not in hints]
        command.__signature__ = inspect.Signature([*own, *others])
        return command

    return give


def flag(
    name: str,
    kind: Any,
    default: object,
    text: str,
    *,
    spelled: str | None = None,
    group: str = "",
    **more: Any,
) -> Parameter:
    """Return a flag; ``spelled`` is its name if that does not follow from the parameter's.

    ``more`` are further arguments of ``typer.Option``.
    """
    declared = (spelled,) if spelled else ()
    told = typer.Option(*declared, help=text, rich_help_panel=group or None, **more)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told]
    )


def file_flag(name: str, text: str, **more: Any) -> Parameter:
    """Return a flag for a file that exists; ``more`` is as for ``flag``."""
    return flag(name, Path | None, None, text, exists=True, dir_okay=False, **more)


def request_flags() -> Iterator[Parameter]:
    """Yield the flags of all options of a request, except those of JSON."""
    for kind, group in ((GenerationRequest, ""), (Beams, ""), (Sampling, "Sampling")):
        hints, defaults = get_type_hints(kind), {each.name: each.default for each in fields(kind)}
        for name, told in options_of(kind).items():
            if name == "width":  # given by --beams
                continue
            spelling = _SPELLINGS.get(name, _Spelling())
            is_other = spelling.kind is not None
            is_list = is_other and spelling.kind in (list[str] | None, list[int] | None)
            yield flag(
                name,
                spelling.kind if is_other else hints[name],
                None if is_other else defaults[name],
                f"{told.text.removesuffix('.')}; may be repeated." if is_list else told.text,
                spelled=spelling.name,
                metavar=spelling.metavar,
                group=told.group or group,
            )


def read_request_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's options from the flags of a request, without the command's own flags."""
    names = (*options_of(GenerationRequest), *options_of(Sampling))
    beams, length_penalty, early_stopping = (
        given[name] for name in ("beams", "length_penalty", "early_stopping")
    )
    return {name: given[name] for name in names if name in given} | {
        "beams": read_beams(beams, length_penalty, early_stopping=early_stopping),
        "logit_bias": read_logit_bias(given["logit_bias"]),
        "draft_widths": given["draft_widths"] or (),
        "drafters": given["drafters"] or (),
        "stop": given["stop"] or (),
        "stop_tokens": given["stop_tokens"] or (),
    }


def json_flags(*names: str) -> Iterator[Parameter]:
    """Yield the flags of these JSON options, or of all; bounds are numbers or words."""
    hints = get_type_hints(JsonOptions)
    for each in fields(JsonOptions):
        if names and each.name not in names:
            continue
        # A word whose default is the server's has none here.
        is_word = isinstance(each.default, StrEnum) or each.default is None
        spelling = _SPELLINGS.get(each.name, _Spelling(metavar=f"N|{UNBOUNDED}"))
        yield flag(
            each.name,
            hints[each.name] if is_word else str,
            each.default if is_word else str(each.default),
            options_of(JsonOptions)[each.name].text,
            metavar=None if is_word else spelling.metavar,
        )


def read_json_options(given: Mapping[str, Any]) -> JsonOptions:
    """Return the JSON options of the flags; raises ``RequestError`` for a wrong one."""
    told = {name: given[name] for name in options_of(JsonOptions) if given.get(name) is not None}
    return JsonOptions(**{name: _bound(text) for name, text in told.items()})


def _bound(text: str) -> Any:
    """Read a bound; words and other texts stay as they are, for the options to check."""
    if text == UNBOUNDED:
        return None
    try:
        return int(text)
    except ValueError:
        return text


def read_documents(given: list[str] | None) -> dict[str, str]:
    """Return the texts of the documents by URI."""
    documents: dict[str, str] = {}
    for pair in given or ():
        uri, _, file = pair.rpartition("=")
        if not uri or not Path(file).is_file():
            raise typer.BadParameter(f"{pair!r} is not URI=FILE with a file that exists")
        if uri in documents:
            raise typer.BadParameter(f"two documents are given for the URI {uri!r}")
        documents[uri] = read_text(Path(file))
    return documents


def read_beams(
    width: int | None, length_penalty: float | None, *, early_stopping: bool
) -> Beams | None:
    """Return the beams that the flags describe."""
    if width is not None:
        return Beams(width, 1.0 if length_penalty is None else length_penalty, early_stopping)
    if length_penalty is not None or early_stopping:
        raise typer.BadParameter("--length-penalty and --early-stopping need --beams")
    return None


def read_logit_bias(given: list[str] | None) -> dict[int, float]:
    """Return the bias of each token."""
    biases: dict[int, float] = {}
    for pair in given or ():
        token, _, bias = pair.partition("=")
        try:
            number, amount = int(token), float(bias)
        except ValueError as error:
            raise typer.BadParameter(f"{pair!r} is not TOKEN=BIAS with two numbers") from error
        if number in biases:
            raise typer.BadParameter(f"two biases are given for token {number}")
        biases[number] = amount
    return biases
