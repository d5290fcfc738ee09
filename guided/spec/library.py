"""Reads the grammars of the package, and grammar files with examples next to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from guided.errors import InvalidConstraintError
from guided.spec.closest import close_names

__all__ = ["LibraryGrammar", "grammar_names", "read_grammar", "read_grammar_file"]

_SEPARATOR = "---"


@dataclass(frozen=True, slots=True)
class LibraryGrammar:
    """A grammar in Lark's format, with the start rule ``start``, and its examples."""

    name: str
    text: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The first line of the comment that the grammar begins with."""
        first, _, _ = self.text.partition("\n")
        return first.removeprefix("//").strip() if first.startswith("//") else ""


def grammar_names() -> tuple[str, ...]:
    """Return the names of all grammars of the library, sorted."""
    paths = (path.name for path in files("guided.library").iterdir())
    return tuple(sorted(name.removesuffix(".lark") for name in paths if name.endswith(".lark")))


def read_grammar(name: str) -> LibraryGrammar:
    """Return the grammar of a name; raises InvalidConstraintError if there is none."""
    known = grammar_names()
    if name not in known:
        close = ", ".join(close_names(name, known)) or ", ".join(known)
        raise InvalidConstraintError(
            f"the library has no grammar {name!r}", hint=f"there is {close}"
        )
    folder = files("guided.library")
    return _read(name, lambda kind: folder.joinpath(f"{name}.{kind}").read_bytes())


def read_grammar_file(file: Path) -> LibraryGrammar:
    """Read a grammar NAME.lark with its examples in NAME.accept and NAME.reject next to it.

    Raises InvalidConstraintError if one of the three is missing or not UTF-8.
    """

    def read(kind: str) -> bytes:
        path = file.with_suffix(f".{kind}")
        try:
            return path.read_bytes()
        except OSError as error:
            raise InvalidConstraintError(f"{path} cannot be read: {error.strerror}") from error

    if file.suffix != ".lark":
        raise InvalidConstraintError(f"{file} does not end in .lark")
    return _read(file.stem, read)


def _read(name: str, read: Callable[[str], bytes]) -> LibraryGrammar:
    def text(kind: str) -> str:
        try:
            return read(kind).decode()
        except UnicodeDecodeError as error:
            raise InvalidConstraintError(
                f"{name}.{kind} is not UTF-8: byte {error.start} is wrong", position=error.start
            ) from error

    return LibraryGrammar(name, text("lark"), _examples(text("accept")), _examples(text("reject")))


def _examples(text: str) -> tuple[str, ...]:
    """Return the examples of a file, without the line break that ends each."""
    if not text:
        return ()
    lines = text.removesuffix("\n").split("\n")
    if _SEPARATOR not in lines:
        return tuple(lines)
    examples: list[list[str]] = [[]]
    for line in lines:
        if line == _SEPARATOR:
            examples.append([])
        else:
            examples[-1].append(line)
    return tuple("\n".join(example) for example in examples if example)
