"""What commands share: flags, examples in their help, reading files, notes of compilations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer
from rich.console import Console

from guided.errors import InvalidConstraintError, RequestError

if TYPE_CHECKING:
    from guided.machine.recognizer import Recognizer

__all__ = [
    "DeviceFlag",
    "DtypeFlag",
    "ModelFlag",
    "ThreadsFlag",
    "check_regular",
    "examples_of",
    "read_text",
    "refused_at",
    "shown_with",
    "telling_of_compilation",
]

DtypeFlag: TypeAlias = Annotated[
    str | None, typer.Option(help="Format of the weights, e.g. float32 or int8.")
]
DeviceFlag: TypeAlias = Annotated[
    str, typer.Option(help="Where the model computes: auto, cpu, cuda or cuda:N.")
]
ModelFlag: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Hub id, folder or GGUF file of the model. Default: SmolLM2-135M-Instruct."),
]
ThreadsFlag: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Threads of a model call.")]

Command = TypeVar("Command", bound=Callable[..., Any])

_examples: dict[Callable[..., Any], str] = {}

_COMPILING = "compiling kernels for this processor, which is done once and takes a minute or two"


def shown_with(*lines: str) -> Callable[[Command], Command]:
    """Show shell commands below the help of a command."""

    def keep(command: Command) -> Command:
        # Each line becomes its own paragraph; brackets are not markup.
        written = (line.replace("[", r"\[") for line in lines)
        _examples[command] = "\n\n".join(("[bold]Examples[/bold]", *written))
        return command

    return keep


def examples_of(command: Callable[..., Any]) -> str | None:
    """Return the text shown below the help of a command."""
    return _examples.get(command)


def read_text(file: Path) -> str:
    """Return the text of a file; raises InvalidConstraintError if it is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidConstraintError(
            f"{file} is not UTF-8: byte {error.start} is wrong", position=error.start
        ) from error
    except OSError as error:
        raise InvalidConstraintError(f"{file} cannot be read: {error.strerror}") from error


def check_regular(file: Path, hint: str) -> None:
    """Raise ``RequestError`` for a pipe or a device; a file may be one that is yet to be made."""
    if file.exists() and not file.is_file():
        raise RequestError(f"{file} is no regular file", hint=hint)


def refused_at(machine: Recognizer, text: str) -> int | None:
    """Find the first character that does not fit, or the end; ``None`` for a text that fits."""
    state = machine.start
    for index, character in enumerate(text):
        following = machine.advance(state, character.encode())
        if following is None:
            return index
        state = following
    return None if machine.is_accepting(state) else len(text)


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Report if kernels have to be compiled, and in a terminal how many were."""
    # Imported here, so that commands without a compiler need none.
    from guided.runtime.kernel_events import report_kernel_compiles

    console = Console(stderr=True, soft_wrap=True)
    status = console.status("")

    def tell(number: int) -> None:
        if console.is_terminal:
            status.start()
            status.update(f"{_COMPILING}: number {number}")
        elif number == 1:
            console.print(_COMPILING, highlight=False)

    try:
        with report_kernel_compiles(tell):
            yield
    finally:
        status.stop()
