"""Loads draft models, whose memory is planned before that of the model they draft for.

names ──▶ plan_drafters ──▶ DraftPlan    files found, memory known
                                │        the target is planned and loaded beside them
                                ▼
                           load_drafters ──▶ DraftModel
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from guided.drafters.draft_model import CHAIN, DraftModel, Respelling, describe_difference
from guided.engine.cache_size import CacheRequest, open_cache
from guided.engine.find_files import find_files
from guided.engine.formats import check_model
from guided.engine.load_runner import load_runner
from guided.engine.memory_plan import TABLES, Footprint, measure_footprint
from guided.errors import RequestError
from guided.model.free_memory import size_text
from guided.model.layer_configs import is_recurrent
from guided.model.load import ModelTexts
from guided.model.model_files import ModelFiles
from guided.model.progress import Progress
from guided.spec import TokenId
from guided.spec.draft_options import check_draft_widths

__all__ = ["DraftPlan", "check_widths", "load_drafters", "plan_drafters"]

_MAX_CACHE_TOKENS: Final = 16384
"""The most tokens that a draft model keeps, unless the size of the target's cache is set."""
_MIN_CACHE_TOKENS: Final = 1024
_SHARE: Final = 0.1
"""The largest share of free memory for a draft model's cache, beyond the least size."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A draft model that was found, and the memory it will take."""

    name: str
    """The name that requests use for it."""
    files: ModelFiles
    dtype: str | None
    cache_request: CacheRequest
    cache_tokens: int
    cache: int
    """Bytes of the cache."""
    footprint: Footprint

    @property
    def nbytes(self) -> int:
        """Bytes in all; the tables are those of the target."""
        return self.footprint.weights + self.footprint.working - TABLES + self.cache

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.files.name}, weights {size_text(self.footprint.weights)}, "
            f"cache {size_text(self.cache)} ({self.cache_tokens:,} tokens)"
        )


def check_widths(
    models: Sequence[str], widths: Sequence[int] | None, *, drafts: bool
) -> tuple[int, ...]:
    """Return the requested expansion widths, or a chain; raises ``RequestError``."""
    if models and not drafts:
        raise RequestError(
            "draft models are named, but drafting is off",
            field="draft_models",
            hint="leave them out, or let the engine draft",
        )
    if widths is not None and not models:
        raise RequestError(
            "draft_widths are those of draft models, and none is named",
            field="draft_widths",
            hint="name one in draft_models, or leave them out",
        )
    chosen = CHAIN if widths is None else tuple(widths)
    check_draft_widths(chosen)
    return chosen


def plan_drafters(
    models: Sequence[str],
    dtype: str | None,
    cache_request: CacheRequest,
    device: torch.device,
    progress: Progress,
) -> tuple[DraftPlan, ...]:
    """Find draft models and plan their memory; ``cache_request`` is the cache of the target.

    They keep keys and values as computed, whatever the target does.
    """
    plans = []
    own = CacheRequest(cache_request.cache_tokens, limits=cache_request.limits)
    for number, model in enumerate(models, 1):
        found_as = None if dtype == "stored" else dtype  # which would refuse a folder
        files = find_files(model, found_as, device, progress)
        check_model(files, dtype)
        _refuse_recurrent(model, files)
        footprint = measure_footprint(files, dtype, own, device)
        size = own.size(files.layers, files.windows, footprint.cache_dtype)
        most = cache_request.cache_tokens or _MAX_CACHE_TOKENS
        within = size.tokens_within(int(_SHARE * footprint.free), most)
        tokens = max(min(_MIN_CACHE_TOKENS, most), within)
        plan = DraftPlan(
            name="draft" if number == 1 else f"draft-{number}",
            files=files,
            dtype=dtype,
            cache_request=own,
            cache_tokens=tokens,
            cache=size.nbytes(tokens),
            footprint=footprint,
        )
        progress.note(str(plan))
        plans.append(plan)
    return tuple(plans)


def _refuse_recurrent(model: str, files: ModelFiles) -> None:
    """Refuse a recurrent model: a draft takes several calls, a state follows it only in one."""
    if is_recurrent(files.config):
        raise RequestError(
            f"the draft model {model} has layers that keep a state from token to token",
            field="draft_models",
            hint="choose a draft model all of whose layers are attention",
        )


def load_drafters(
    plans: Sequence[DraftPlan],
    target: ModelTexts,
    widths: tuple[int, ...],
    progress: Progress,
    *,
    reuse_prefixes: bool,
) -> tuple[DraftModel, ...]:
    """Load what was planned; raises ``ModelError`` if a model cannot spell every text."""
    return tuple(
        [_load(plan, target, widths, progress, reuse_prefixes=reuse_prefixes) for plan in plans]
    )


def _load(
    plan: DraftPlan,
    target: ModelTexts,
    widths: tuple[int, ...],
    progress: Progress,
    *,
    reuse_prefixes: bool,
) -> DraftModel:
    """Load the draft model of a plan, with a cache of its own."""
    files, limits, own = plan.files, plan.cache_request.limits, plan.footprint
    texts, make_runner = load_runner(files, plan.dtype, own.device, plan.cache_request, progress)
    respelling = _respelling(plan, target, texts, progress)
    with progress.step(f"loading {plan.name}", total_bytes=files.checkpoint.nbytes) as report:
        runner = make_runner(report)
    cache = open_cache(runner, plan.cache_tokens, limits, reuse_prefixes=reuse_prefixes)
    runner.warm_up()
    return DraftModel(
        plan.name,
        runner,
        cache,
        context_window=texts.context_window,
        widths=widths,
        step_tokens=limits.step_tokens,
        respelling=respelling,
    )


def _respelling(
    plan: DraftPlan, target: ModelTexts, draft: ModelTexts, progress: Progress
) -> Respelling | None:
    """Return how the draft model reads the target's tokens; ``None`` if they are its own."""
    differing = describe_difference(
        target.vocabulary,
        draft.vocabulary,
        known=1 + max(target.tokenizer.get_vocab().values()),
        readable=int(plan.files.config.get_text_config().vocab_size),
    )
    # Vocabularies of one family may be padded to different widths.
    if differing is None and len(target.vocabulary) == len(draft.vocabulary):
        return None
    respelling = Respelling(
        target.vocabulary,
        draft.vocabulary,
        special=_special(target),
        known_special={name: token for token, name in _special(draft).items()},
    )
    if differing is not None:
        progress.note(
            f"{plan.name} has other tokens than {target.name} ({differing}): it reads them spelled "
            f"anew, and drafts the {respelling.num_common:,} that both have"
        )
    return respelling


def _special(texts: ModelTexts) -> dict[TokenId, str]:
    """Return the tokens that stand for no text, with their names in the tokenizer."""
    token_bytes = texts.vocabulary.token_bytes
    return {
        TokenId(token): name
        for name, token in texts.tokenizer.get_vocab().items()
        if token < len(token_bytes) and token_bytes[token] is None
    }
