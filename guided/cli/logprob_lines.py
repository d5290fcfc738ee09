"""Log-probabilities as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from guided.spec import TokenLogprobs

__all__ = ["logprob_lines"]


def logprob_lines(logprobs: Iterable[TokenLogprobs]) -> Iterator[str]:
    """A heading, then one line for each token, with the likeliest allowed tokens at its end."""
    yield f"{'token':>8} {'raw':>9} {'masked':>9}  text"
    for one in logprobs:
        if one.raw is None or one.masked is None:
            numbers = f"{'forced':>9} {'':>9}"
        else:
            numbers = f"{one.raw:9.4f} {one.masked:9.4f}"
        line = f"{one.token:8} {numbers}  {_shown(one.text)}"
        likeliest = ", ".join(f"{_shown(other.text)} {other.masked:.4f}" for other in one.top)
        yield f"{line}  ({likeliest})" if likeliest else line


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="backslashreplace")) if text else "(end)"
