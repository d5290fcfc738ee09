"""How large the terminals of a grammar are once those that they refer to are written out.

Lark's loader goes through them as if they were, so this has to be known before: forty terminals
that each refer twice to the next one would keep it busy for years.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lark.grammar import Terminal
from lark.load_grammar import _parse_grammar

from guided.errors import LimitExceededError

__all__ = ["check_terminal_sizes"]

_MAX_SIZE: Final = 100_000
_FEW_NAMES: Final = 30
_NAME: Final = r"\b_?[A-Z][_A-Z0-9]*\b"
_WRITTEN: Final = r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\])+/|//[^\n]*|#[^\n]*'
_RULE: Final = r"\s*(%(override|extend)\s+)?[!?]*_?[a-z]"
_LIBRARY_SIZE: Final = 50
"""What a terminal out of Lark's own grammars counts for."""


def check_terminal_sizes(text: str, name: str, imports: Mapping[str, str]) -> None:
    """Raise LimitExceededError for a terminal that is too large, lark's errors for a wrong text."""
    # So few references make no terminal large, and reading the text twice would take time.
    if sum(map(_count_references, (text, *imports.values()))) > _FEW_NAMES:
        _Sizes(imports).largest(text, name)


def _count_references(text: str) -> int:
    """How many names of terminals there are outside of rules."""
    bare = re.sub(_WRITTEN, " ", text)
    return sum(
        len(re.findall(_NAME, statement))
        for statement in re.split(r"\n(?!\s*\|)", bare)
        if not re.match(_RULE, statement)
    )


class _Sizes:
    def __init__(self, imports: Mapping[str, str]) -> None:
        self._imports = imports
        self._files: dict[str, int] = {}

    def largest(self, text: str, name: str) -> int:
        """The size of the largest terminal that a text defines."""
        tree = _parse_grammar(text, name)  # type: ignore[no-untyped-call]
        imported = _LIBRARY_SIZE
        for statement in tree.children:
            if statement.data == "import":
                path = [str(part) for part in statement.children[0].children]
                # The last part is the name itself, unless a list of names follows.
                for file in (".".join(path), ".".join(path[:-1])):
                    imported = max(imported, self._of_file(file))
        defined = dict[str, list[Any]]()
        for statement in tree.children:
            inner = statement.children[0] if statement.data in ("extend", "override") else statement
            if inner.data == "term":
                defined.setdefault(str(inner.children[0]), []).append(inner.children[-1])
        sizes: dict[str, int] = {}
        return max((_size(each, defined, imported, sizes) for each in defined), default=1)

    def _of_file(self, file: str) -> int:
        if file not in self._imports:
            return _LIBRARY_SIZE
        if file not in self._files:
            self._files[file] = _LIBRARY_SIZE  # stands where files import each other
            self._files[file] = self.largest(self._imports[file], file)
        return self._files[file]


def _size(name: str, defined: Mapping[str, list[Any]], imported: int, sizes: dict[str, int]) -> int:
    if name not in defined:
        return imported
    if name not in sizes:
        sizes[name] = 1  # stands where terminals refer to each other, which the loader refuses
        parts = (part for tree in defined[name] for part in tree.iter_subtrees())
        found = 0
        for part in parts:
            found += 1
            for child in part.children:
                if isinstance(child, Terminal):
                    found += _size(child.name, defined, imported, sizes)
        if found > _MAX_SIZE:
            raise LimitExceededError(
                f"the terminal {name!r} has more than {_MAX_SIZE} parts when it is written out",
                limit=_MAX_SIZE,
                field="constraint",
                hint="let terminals refer to each other less often",
            )
        sizes[name] = found
    return sizes[name]
