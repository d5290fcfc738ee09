"""Several answers to one request: how many are made, and how the best are found."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from guided.errors import RequestError
from guided.spec.sampling import Sampling

__all__ = ["Beams", "check_counts", "check_sampling"]


@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: the likeliest answers, instead of drawn ones.

    At each place the ``width`` likeliest beginnings are kept. An answer's score is the sum of the
    log-probabilities of its tokens by the model alone, forced tokens and the token that ends it
    among them, over (number of those tokens) ** ``length_penalty``.
    """

    width: int
    length_penalty: float = 1.0
    """From -10 to 10; 0 compares sums, 1 means, and more favours longer answers."""
    early_stopping: bool = False
    """Stop at the first ``width`` answers, not only where no better one is in sight."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise RequestError(f"width {self.width!r} is below 1", field="beams.width")
        penalty = self.length_penalty
        if not math.isfinite(penalty) or abs(penalty) > 10:
            raise RequestError(
                f"length_penalty {penalty!r} is not between -10 and 10",
                field="beams.length_penalty",
            )


def check_counts(n: int, best_of: int | None, beams: Beams | None) -> None:
    """Raise ``RequestError`` unless so many answers can be made."""
    if n < 1:
        raise RequestError(f"n {n!r} is below 1", field="n")
    if best_of is not None and best_of < n:
        raise RequestError(f"best_of {best_of!r} is below n ({n})", field="best_of")
    if beams is None:
        return
    if best_of is not None:
        raise RequestError(
            "best_of ranks answers that are drawn, and beams draw none",
            field="best_of",
            hint="leave it out; the answers of beams are the best first",
        )
    if n > beams.width:
        raise RequestError(
            f"n {n!r} is above the width of the beams ({beams.width})",
            field="n",
            hint="widen the beams, or ask for fewer",
        )


def check_sampling(drawn: int, beams: Beams | None, sampling: Sampling) -> None:
    """Raise ``RequestError`` where several answers and the sampling are at odds."""
    if beams is None:
        if drawn > 1 and sampling.is_contrastive:
            raise RequestError(
                f"contrastive search gives one answer, not {drawn}",
                field="sampling.penalty_alpha",
                hint="leave penalty_alpha out, or ask for one answer",
            )
        if drawn > 1 and sampling.temperature == 0:
            raise RequestError(
                f"{drawn} answers of temperature 0 are all the same",
                field="sampling.temperature",
                hint="set a temperature, or ask for beams",
            )
        return
    for option in fields(Sampling):
        if getattr(sampling, option.name) != option.default:
            raise RequestError(
                f"{option.name} has no part in beams, which keep the likeliest beginnings",
                field=f"sampling.{option.name}",
                hint="leave it out, or draw answers with n and best_of",
            )
