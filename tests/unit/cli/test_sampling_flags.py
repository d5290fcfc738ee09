"""Flags about sampling become options, and log-probabilities become lines."""

from __future__ import annotations

import pytest
import typer

from guided.cli.flags import read_logit_bias
from guided.cli.generate import logprob_lines
from guided.spec import Alternative, TokenId, TokenLogprobs


def test_biases_are_read() -> None:
    assert read_logit_bias(["5=-1.5", "0=100"]) == {5: -1.5, 0: 100.0}
    assert read_logit_bias(None) == {}


@pytest.mark.parametrize("pair", ["5", "=1", "a=1", "5=x", "1.5=1", ""])
def test_what_is_no_bias_is_refused(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOKEN=BIAS with two numbers"):
        read_logit_bias([pair])


def test_a_token_has_one_bias() -> None:
    with pytest.raises(typer.BadParameter, match="two biases are given for token 5"):
        read_logit_bias(["5=1", "5=2"])


def test_log_probabilities_as_lines() -> None:
    top = (
        Alternative(TokenId(7), b" a", -0.5, -0.25),
        Alternative(TokenId(0), b"", -3.0, -2.75),
    )
    logprobs = [
        TokenLogprobs(TokenId(7), b" a", -0.5, -0.25, top),
        TokenLogprobs(TokenId(9), b"\xc3", None, None),
    ]
    assert list(logprob_lines(logprobs)) == [
        "   token       raw    masked  text",
        "       7   -0.5000   -0.2500  ' a'  (' a' -0.2500, (end) -2.7500)",
        "       9    forced            '\\\\xc3'",
    ]
