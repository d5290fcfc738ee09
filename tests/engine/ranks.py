"""Saved models over several processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import PreTrainedModel

from guided.model.device import CPU
from guided.model.model_files import find_model
from guided.model.parallel.ranks import Ranks
from guided.model.parallel.sharded_runner import ShardedRunner
from guided.model.parallel.shares import RANK_VARIABLES, Share, load_share
from guided.model.parallel.split import Split
from guided.model.progress import SilentProgress
from tests.engine.finite_language import TOKEN_BYTES

__all__ = ["saved", "sharded"]


@contextmanager
def sharded(folder: Path, split: Split) -> Iterator[tuple[ShardedRunner, list[int]]]:
    """The runner of a saved model over ranks, and the bytes of weights that each of them holds."""
    before = [os.environ.get(name) for name in RANK_VARIABLES]
    started = Ranks.start(folder, torch.float32, CPU, split, threads=1)
    try:
        with started.together():
            files = find_model(str(folder))
            share = load_share(files, torch.float32, CPU, split, 0, SilentProgress())
        runner = ShardedRunner(share, started, vocabulary_size=len(TOKEN_BYTES))
        yield runner, [rank.nbytes for rank in runner.held]
    finally:
        started.close()
    after = [os.environ.get(name) for name in RANK_VARIABLES]
    assert after == before, "trainers in this process would take it for a rank"


def saved(folder: Path, model: PreTrainedModel) -> int:
    """Save a tiny model; the bytes of its weights."""
    model.save_pretrained(folder)
    return Share(model, None).nbytes
