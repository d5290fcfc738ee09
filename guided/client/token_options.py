"""Collections of tokens and strings as the client's user writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real

from guided.errors import RequestError
from guided.spec import TokenId

__all__ = ["bias_pairs", "stop_strings", "stop_tokens"]


def stop_strings(given: str | Iterable[str]) -> tuple[str, ...]:
    """The stop strings; a single one may stand for itself."""
    strings = (given,) if isinstance(given, str) else tuple(given)
    for string in strings:
        if not isinstance(string, str):
            raise RequestError(
                f"stop holds {string!r}, which is not a string", field="stop", hint="pass strings"
            )
    return strings


def stop_tokens(given: Iterable[int]) -> tuple[TokenId, ...]:
    """The stop tokens."""
    return tuple(TokenId(_token(token, "stop_tokens")) for token in given)


def bias_pairs(given: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    """Each token with its bias."""
    return tuple((_token(token, "logit_bias"), _number(bias)) for token, bias in given.items())


def _token(token: object, name: str) -> int:
    # Python counts True as 1; nobody who writes it means that.
    if not isinstance(token, Integral) or isinstance(token, bool):
        raise RequestError(
            f"{name} holds {token!r}, which is not a token id",
            field=_field(name),
            hint="pass integers",
        )
    return int(token)


def _number(bias: object) -> float:
    if not isinstance(bias, Real) or isinstance(bias, bool):
        raise RequestError(
            f"logit_bias holds {bias!r}, which is not a number",
            field=_field("logit_bias"),
            hint="pass numbers",
        )
    return float(bias)


def _field(name: str) -> str:
    return "sampling.logit_bias" if name == "logit_bias" else name
