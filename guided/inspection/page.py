"""Renders an answer, its legend and its draft trees as one HTML file, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from guided.inspection.branches import Branch
from guided.inspection.legend import LegendEntry
from guided.inspection.origins import Origin, TracedToken
from guided.inspection.texts import escape_controls, show_bytes, split_into_characters

__all__ = ["page"]

_DRAFTER_COLORS: Final = 5
"""Number of colours for drafters, used in turn: classes ``drafted0`` to ``drafted4``."""
_COLORS: Final = Path(__file__).with_name("colors.css").read_text("utf-8")
_STYLE: Final = """\
body { background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
pre, code { font-family: ui-monospace, monospace; font-size: 0.9rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.9; }
pre span, td:first-child { border-radius: 3px; padding: 2px 1px; }
pre span:hover { outline: 2px solid var(--quiet); }
table { border-collapse: collapse; }
th, td { padding: 0.15rem 0.75rem; text-align: left; }
td.count { text-align: right; }
small { color: var(--quiet); }
ul { list-style: none; padding-left: 1.5rem; border-left: 1px solid var(--quiet); }
ul.tree { border: 0; padding: 0; }
"""


def page(
    title: str,
    summary: str,
    tokens: Sequence[TracedToken],
    legend: Mapping[str, LegendEntry],
    trees: Mapping[str, Branch],
) -> str:
    """Return the whole file; ``trees`` are those of the steps to show, by their headings."""
    classes = _classes(legend)
    drawn = "".join(
        f'<h2>{escape(heading)}</h2>\n<ul class="tree">\n{_list_item(tree)}</ul>\n'
        for heading, tree in trees.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_COLORS}{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<pre>{_answer(tokens, classes)}</pre>\n"
        f"<p>{escape(summary)}</p>\n{_legend(legend, classes)}{drawn}</body>\n</html>\n"
    )


def _classes(legend: Mapping[str, LegendEntry]) -> dict[str, str]:
    """Return the class of each source, which has its colour."""
    return {
        source: f"drafted{entry.drafter % _DRAFTER_COLORS}"
        if entry.origin is Origin.DRAFTED
        else entry.origin.value
        for source, entry in legend.items()
    }


def _answer(tokens: Sequence[TracedToken], classes: Mapping[str, str]) -> str:
    """Return the answer as HTML, each piece of text in the class of its origin."""
    return "".join(
        f'<span class="{classes[its[0].source]}" title="{_tooltip(its)}">'
        f"{escape(escape_controls(text))}</span>"
        for text, its in split_into_characters(tokens)
    )


def _tooltip(tokens: Sequence[TracedToken]) -> str:
    """Return what is known of the tokens that end in a piece of text, one fact per line."""
    lines = []
    for token in tokens:
        lines.append(f"{show_bytes(token.text)}  token {token.token}, step {token.step}")
        lines.append(f"{token.source} ({token.kind})" if token.kind else token.source)
        if token.probability is not None:
            lines.append(f"probability {token.probability:.3f}")
    # A line break in an attribute must be a reference, or it may be read as a space.
    return "&#10;".join(map(escape, lines))


def _legend(legend: Mapping[str, LegendEntry], classes: Mapping[str, str]) -> str:
    """Return the legend as an HTML table."""
    rows = "".join(
        f'<tr><td class="{classes[source]}">{escape(source)}</td>'
        f'<td class="count">{entry.num_tokens}</td>'
        f"<td>{escape(', '.join(f'{count} {kind}' for kind, count in entry.kinds))}</td></tr>\n"
        for source, entry in legend.items()
    )
    head = "<tr><th>origin</th><th>tokens</th><th>of which</th></tr>"
    return f"<table>\n{head}\n{rows}</table>\n"


def _list_item(branch: Branch) -> str:
    """Return a branch as an HTML list item, with the branches after it as a list inside."""
    run = f' <code class="run">{escape(branch.run)}</code>' if branch.run else ""
    remarks = "; ".join(filter(None, (branch.fate.value, branch.note)))
    inner = "".join(map(_list_item, branch.branches))
    below = f"\n<ul>\n{inner}</ul>\n" if inner else ""
    return (
        f'<li class="{branch.fate.value}"><code>{escape(branch.text)}</code>{run}'
        f" <small>{escape(remarks)}</small>{below}</li>\n"
    )
