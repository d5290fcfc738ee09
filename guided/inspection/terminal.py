"""Renders an answer, its legend and its draft trees in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from guided.inspection.branches import Branch, Fate
from guided.inspection.legend import LegendEntry
from guided.inspection.origins import Origin, TracedToken
from guided.inspection.texts import escape_controls, split_into_characters

__all__ = ["answer_view", "legend_view", "tree_view"]

_STYLES: Final[Mapping[Origin, str]] = {
    Origin.FORCED: "bright_black",
    Origin.COPIED: "cyan",
    Origin.CORRECTED: "bold red",
    Origin.SAMPLED: "yellow",
}
_DRAFTER_STYLES: Final = ("green", "magenta", "blue", "bright_green", "bright_magenta")
"""Styles for drafters, used in turn."""
_FATES: Final[Mapping[Fate, tuple[str, str]]] = {
    Fate.TRUNK: ("=", "bright_black"),
    Fate.TAKEN: ("✓", "bold green"),
    Fate.WRONG: ("✗", "red"),
    Fate.UNTRIED: ("·", "bright_black"),
    Fate.REFUSED: ("⊘", "magenta"),
    Fate.CHOSEN: ("»", "bold yellow"),
}
"""The mark and the style of each fate."""
_NOTE_STYLE: Final = "dim"


def answer_view(tokens: Sequence[TracedToken], legend: Mapping[str, LegendEntry]) -> RenderableType:
    """Return the answer with each token in the colour of its origin.

    A console without colours shows the mark of the origin below each token.
    """
    return _AnswerView(tokens, legend)


def legend_view(legend: Mapping[str, LegendEntry]) -> Table:
    """Return the origins with their marks, and how many tokens each of them gave."""
    styles, total = _styles(legend), sum(entry.num_tokens for entry in legend.values())
    table = Table("", "origin", "tokens", "share", "of which")
    for column in (2, 3):
        table.columns[column].justify = "right"
    for source, entry in legend.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in entry.kinds)
        table.add_row(
            *(Text(cell, styles[source]) for cell in (entry.mark, source)),
            str(entry.num_tokens),
            f"{entry.num_tokens / total:.0%}",
            Text(kinds),
        )
    return table


def tree_view(branch: Branch) -> Tree:
    """Return a draft tree; the root of the branch is its trunk."""
    tree = Tree(_line(branch), guide_style=_NOTE_STYLE)
    worklist = [(tree, branch)]
    while worklist:
        shown, its = worklist.pop()
        worklist += [(shown.add(_line(each)), each) for each in its.branches]
    return tree


def _line(branch: Branch) -> Text:
    """Return the line of a branch: mark, text, the tokens that it forces, and remarks."""
    mark, style = _FATES[branch.fate]
    line = Text.assemble((mark, style), " ", (branch.text, style))
    if branch.run:
        line.append(f" → {branch.run}", _STYLES[Origin.FORCED])
    return line.append(
        f"   {'; '.join(filter(None, (branch.fate.value, branch.note)))}", _NOTE_STYLE
    )


class _AnswerView:
    """A rich renderable, which asks the console whether it has colours."""

    def __init__(self, tokens: Sequence[TracedToken], legend: Mapping[str, LegendEntry]) -> None:
        self._pieces = [
            (escape_controls(text), its[0]) for text, its in split_into_characters(tokens)
        ]
        self._legend = legend
        self._styles = _styles(legend)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.color_system is not None and not console.no_color:
            parts = [(text, self._styles[token.source]) for text, token in self._pieces]
            yield Text.assemble(*parts, overflow="fold")
            return
        for text, marks in self._mark_lines(options.max_width):
            yield Text(text, no_wrap=True)
            yield Text(marks, no_wrap=True)

    def _mark_lines(self, width: int) -> Iterator[tuple[str, str]]:
        """Yield the answer's lines with their marks: below each cell its token's mark or a dash."""
        line, marks = "", ""
        for text, token in self._pieces:
            mark = self._legend[token.source].mark
            for character in text:
                if character == "\n" or cell_len(line + character) > width:
                    yield line, marks
                    line, marks = "", ""
                if character != "\n":
                    line += character
                    # A character may be two cells wide, or none.
                    marks += mark.ljust(1, "-") * min(1, cell_len(character))
                    marks += "-" * (cell_len(line) - len(marks))
                    mark = "-"
        yield line, marks


def _styles(legend: Mapping[str, LegendEntry]) -> dict[str, str]:
    """Return the style of each source."""
    return {
        source: _STYLES.get(entry.origin) or _DRAFTER_STYLES[entry.drafter % len(_DRAFTER_STYLES)]
        for source, entry in legend.items()
    }
