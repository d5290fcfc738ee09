"""Draws tokens from logits and packed masks on the device, by a kernel of ours for Triton.

A program reads a chunk of one row and keeps the best of its allowed tokens; then the best chunk of
a row wins. It computes ``guided.decoding.sampling.choose_token``: the likeliest token, or the
largest sum of a score and noise hashed from the token::

    row     chunk 0         chunk 1         chunk 2
    mask    0110 1000 …     0000 0000 …     0001 0000 …
    best    17.5 (token 2)  none            18.1 (token 8195)   →  8195
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl

__all__ = ["draw_tokens"]

_CHUNK: Final = 2048
_NONE: Final = 2**31 - 1
"""More than any token."""
_NO_TOKEN = tl.constexpr(_NONE)
_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND = tl.constexpr(0x94D049BB133111EB)


def draw_tokens(
    logits: torch.Tensor, masks: torch.Tensor, temperatures: torch.Tensor, streams: torch.Tensor
) -> torch.Tensor:
    """Return a token of each row, int32 ``[rows]``, on the device.

    ``logits`` are ``[rows, vocabulary]``, ``masks`` packed (int32 ``[rows, words]``, bits for all
    of the vocabulary), ``temperatures`` float64 and ``streams`` int64, as 64 bits. The token is -1
    if none can be drawn, or if a logit is not a number or infinite.
    """
    rows, vocabulary = logits.shape
    chunks = triton.cdiv(vocabulary, _CHUNK)
    best = torch.empty(rows, chunks, dtype=torch.float64, device=logits.device)
    tokens = torch.empty(rows, chunks, dtype=torch.int32, device=logits.device)
    with torch.cuda.device(logits.get_device()):
        _draw[(rows, chunks)](
            logits,
            masks,
            temperatures,
            streams,
            best,
            tokens,
            vocabulary,
            logits.stride(0),
            masks.stride(0),
            CHUNK=_CHUNK,
        )
    # Of equal ones the first token, as on the CPU.
    largest = best.amax(1, keepdim=True)
    found = torch.where(best == largest, tokens, _NONE).amin(1)
    return torch.where(largest[:, 0].isfinite(), found, -1)


@triton.jit  # type: ignore[untyped-decorator]
def _draw(
    logits: tl.tensor,  # [rows, vocabulary]
    masks: tl.tensor,  # [rows, words]
    temperatures: tl.tensor,  # [rows]
    streams: tl.tensor,  # [rows]
    best: tl.tensor,  # [rows, chunks]
    drawn: tl.tensor,  # [rows, chunks]
    vocabulary: tl.tensor,
    logits_step: tl.tensor,
    mask_step: tl.tensor,
    CHUNK: tl.constexpr,  # noqa: N803
) -> None:
    """Run one program per row and chunk; infinity marks a chunk with NaN or infinite logits."""
    row = tl.program_id(0).to(tl.int64)
    tokens = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    is_token = tokens < vocabulary
    words = tl.load(masks + row * mask_step + (tokens >> 5), mask=is_token, other=0)
    is_allowed = is_token & (((words >> (tokens & 31)) & 1) != 0)
    found = tl.load(logits + row * logits_step + tokens, mask=is_allowed, other=0.0).to(tl.float64)
    is_foreign = is_allowed & ((found == float("inf")) | (found != found))
    temperature = tl.load(temperatures + row)
    if temperature > 0:
        found = found / temperature + _gumbel(tokens, tl.load(streams + row))
    scores = tl.where(is_allowed & (found == found), found, float("-inf"))
    largest = tl.max(scores, 0)
    token = tl.min(tl.where(is_allowed & (scores == largest), tokens, _NO_TOKEN), 0)
    largest = tl.where(tl.max(is_foreign.to(tl.int32), 0) > 0, float("inf"), largest)
    place = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(best + place, largest)
    tl.store(drawn + place, token)


@triton.jit  # type: ignore[untyped-decorator]
def _gumbel(tokens: tl.tensor, stream: tl.tensor) -> tl.tensor:
    """Return the noise of each token: ``gumbel_noise``, hashed by the finaliser of SplitMix64."""
    words = (tokens.to(tl.uint64) + 1) * _GOLDEN + stream.to(tl.uint64)
    words += _GOLDEN
    words = (words ^ (words >> 30)) * _FIRST
    words = (words ^ (words >> 27)) * _SECOND
    words = words ^ (words >> 31)
    uniform = ((words >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16  # 2 to the -53
    return -tl.log(-tl.log(uniform))
