"""The programs that a block of a console starts, with their arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

__all__ = ["programs"]

_OPERATORS = set("();<>|&")
_SETS_A_VARIABLE = re.compile(r"\w+=")


def programs(text: str) -> Iterator[list[str]]:
    """Each program after a ``$``: its name without a folder, and its words."""
    for typed in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        for words in _between_operators(_words(typed)):
            while words and _SETS_A_VARIABLE.match(words[0]):
                del words[0]
            if words:
                name = words[0].rpartition("/")[2]
                yield [name, *words[1:]]


def _words(typed: str) -> list[str]:
    """The words of a command: of its line, and of later lines while a quote is open."""
    lines = typed.splitlines()
    for end in range(1, len(lines) + 1):
        reader = shlex.shlex("\n".join(lines[:end]), posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        try:
            return list(reader)
        except ValueError:  # a quote is open
            continue
    raise ValueError(f"a quote is never closed in {typed!r}")


def _between_operators(words: list[str]) -> Iterator[list[str]]:
    """Programs of a pipe or list, without the operators and the files of redirections."""
    program: list[str] = []
    is_file = False
    for word in words:
        if set(word) <= _OPERATORS:
            is_file = word[0] in "<>"
            if not is_file:
                yield program
                program = []
        elif is_file:
            is_file = False
        else:
            program.append(word)
    yield program
