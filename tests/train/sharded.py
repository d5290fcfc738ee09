"""Trains every kind of drafter sharded over the processes of a launcher: `-m tests.train.sharded`.

accelerate shards nothing on the CPU, so torch's FSDP is used directly. The first process compares
with one process that takes the mean of all losses, as data parallel training does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM

from guided.train.candidates import CandidateSampler
from guided.train.draft import DraftLesson, DraftShape
from guided.train.eagle import EagleLesson
from guided.train.examples import Example
from guided.train.lesson import Batch, Lesson
from guided.train.medusa import MedusaLesson
from guided.train.target import FrozenTarget

_VOCABULARY, _STEPS = 90, 4


def main() -> None:
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (count,))
    for lesson in _lessons():
        batches = [lesson.collate(_examples(number)) for number in range(count)]
        torch.manual_seed(1)
        sharded = lesson.make_module()
        fully_shard(sharded, mesh=mesh)
        _train(sharded, [batches[rank]])
        found = {name: _whole(tensor) for name, tensor in sharded.state_dict().items()}
        if rank == 0:
            torch.manual_seed(1)
            alone = lesson.make_module()
            before = {name: tensor.clone() for name, tensor in alone.state_dict().items()}
            _train(alone, batches)
            expected = alone.state_dict()
            assert found.keys() == expected.keys()
            for name, tensor in expected.items():
                torch.testing.assert_close(found[name], tensor, atol=1e-4, rtol=1e-3)
            assert any(not torch.equal(before[name], found[name]) for name in before)
            sys.stdout.write(f"{lesson.told()['kind']}: {len(found)} tensors are equal\n")
    dist.destroy_process_group()


def _whole(tensor: Any) -> torch.Tensor:
    """A tensor gathered from all processes, or one that is not sharded."""
    whole: torch.Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()


def _lessons() -> Sequence[Lesson]:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model, taps = LlamaForCausalLM(config), (2, 4, 5)
    tokenizer: Any = None  # nothing is saved
    sampler = CandidateSampler(torch.arange(_VOCABULARY), _VOCABULARY, 0)
    return (
        MedusaLesson(FrozenTarget(model), "tiny", 2, 1, 64, sampler),
        EagleLesson(FrozenTarget(model, taps=taps), "tiny", taps, torch.arange(40), 48, 2, 16),
        DraftLesson(FrozenTarget(model), "tiny", tokenizer, DraftShape(1, 16, 2), 64),
    )


def _examples(number: int) -> list[Example]:
    torch.manual_seed(10 + number)
    tokens = torch.randint(0, _VOCABULARY, (4, 20)).tolist()
    return [Example(f"{number}/{n}", tuple(row), (True,) * 20) for n, row in enumerate(tokens)]


def _train(module: nn.Module, batches: Sequence[Batch]) -> None:
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Adam would magnify differences of gradients that come only from rounding.
    optimizer = torch.optim.SGD(trained, lr=0.05)
    for _ in range(_STEPS):
        loss: Any = torch.stack([module(**batch)["loss"] for batch in batches]).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
