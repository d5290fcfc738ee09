"""An EAGLE-3 head on a frozen target, by training-time test.

The head takes some steps on its own features, as it will when it drafts, with the right tokens; the
loss is the cross-entropy of the target's own next tokens, and steps count 1, 0.8, 0.64, ... (Li et
al., *EAGLE-3*, 2025, section 3). It predicts the tokens that are most frequent in the answers, and
begins with the target's own rows for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from guided.drafters.heads import EagleHead, EagleShape, save_eagle
from guided.drafters.heads.eagle_module import default_taps
from guided.errors import RequestError
from guided.train.examples import Example, draw_places, most_frequent
from guided.train.lesson import Batch, Lesson, loss_by_depth, weighted_loss
from guided.train.target import FrozenTarget

if TYPE_CHECKING:
    from guided.model.load import LoadedModel

__all__ = ["EagleLesson", "EagleTraining", "eagle_lesson"]

_SPREAD: Final = 0.02


class EagleTraining(nn.Module):
    """A head that takes some steps from places of a batch."""

    draft_index: torch.Tensor

    def __init__(self, head: EagleHead, *, steps: int) -> None:
        super().__init__()
        self.head = head
        self._steps = steps
        shape = head.shape
        # The index of each of the target's tokens in the draft vocabulary, -1 if it is not there.
        index = torch.full((shape.vocabulary_size,), -1)
        index[head.draft_ids()] = torch.arange(shape.draft_vocabulary_size)
        self.register_buffer("draft_index", index, persistent=False)

    def walk(
        self, taps: torch.Tensor, tokens: torch.Tensor, places: torch.Tensor
    ) -> Iterator[torch.Tensor]:
        """Yield the logits of each step, ``[batch, places, draft]``.

        ``taps`` are ``[batch, length, taps · hidden]``, ``tokens`` ``[batch, length]`` and
        ``places`` indices below ``length - 1``, ``[batch, places]``: step ``s`` of place ``i``
        predicts token ``i + 2 + s``. As ``EagleHead.forward``, but only for these places: the
        logits of others are never used, so only their keys and values are computed, and only in the
        first step.
        """
        layer, head = self.head.layer, self.head
        text = torch.arange(len(tokens), device=tokens.device)[:, None]
        rows = torch.arange(tokens.shape[1] - 1, device=tokens.device)
        features = head.fuse(taps[:, :-1].float())
        number = features.dtype
        read, residual = layer.prepare(head.embed(tokens[:, 1:]).to(number), features)
        query, key, value = layer.self_attn.project(
            read, *head.angles(rows.expand(len(tokens), -1), number)
        )
        query, residual = query[text, places], residual[text, places]
        keys, values = [key], [value]
        sees = rows <= places[:, :, None]  # [batch, places, rows]
        own = torch.eye(places.shape[1], dtype=torch.bool, device=tokens.device)
        for step in range(self._steps):
            attended = layer.self_attn.attend(query, torch.cat(keys, 1), torch.cat(values, 1), sees)
            logits, features = head.predict(layer.finish(residual, attended))
            yield logits
            following = (places + 2 + step).clamp(max=tokens.shape[1] - 1)
            embedded = head.embed(tokens[text, following]).to(number)
            read, residual = layer.prepare(embedded, features)
            query, key, value = layer.self_attn.project(
                read, *head.angles(places + 1 + step, number)
            )
            keys.append(key)
            values.append(value)
            sees = torch.cat((sees, own.expand(len(tokens), -1, -1)), -1)

    def forward(
        self,
        taps: torch.Tensor,
        tokens: torch.Tensor,
        places: torch.Tensor,
        following: torch.Tensor,
        weights: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the loss; ``following`` and ``weights`` are ``[batch, places, steps]``.

        A token that the head cannot predict does not count.
        """
        losses = []
        for step, logits in enumerate(self.walk(taps, tokens, places)):
            right = self.draft_index[following[..., step]]
            heavy = weights[..., step] * (right >= 0)
            loss = weighted_loss(
                logits.flatten(0, 1), right.clamp(min=0).flatten(), heavy.flatten()
            )
            losses.append(loss)
        return loss_by_depth(losses)


@dataclass(frozen=True, slots=True, eq=False)
class EagleLesson(Lesson):
    """A head of some size for a target."""

    depth_name: ClassVar[str] = "step"

    target: FrozenTarget
    """Tapped at the layers that the head reads."""
    base_model: str
    """The target's name, for the config of the head."""
    taps: tuple[int, ...]
    draft_ids: torch.Tensor
    """The target's ids of the tokens that the head predicts, ascending."""
    intermediate_size: int
    steps: int
    places: int
    """Places of a text that are trained on in one step."""

    def make_module(self) -> EagleTraining:
        config = self.target.module.config.get_text_config()
        vocabulary, hidden = self.target.embedding.shape
        heads = int(config.num_attention_heads)
        shape = EagleShape(
            hidden_size=hidden,
            intermediate_size=self.intermediate_size,
            heads=heads,
            kv_heads=int(getattr(config, "num_key_value_heads", heads)),
            head_dim=int(getattr(config, "head_dim", None) or hidden // heads),
            vocabulary_size=vocabulary,
            draft_vocabulary_size=len(self.draft_ids),
            target_hidden_size=hidden,
            taps=self.taps,
            max_positions=int(config.max_position_embeddings),
            norm_epsilon=float(getattr(config, "rms_norm_eps", 1e-6)),
            rope=_plain_rope(config),
        )
        head = EagleHead(shape, draft_ids=self.draft_ids)
        _begin(head, self.target)
        return EagleTraining(head, steps=self.steps).to(self.target.device)

    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        assert isinstance(module, EagleTraining)
        architecture = type(self.target.module).__name__
        head = module.head.to(self.target.module.dtype)
        save_eagle(
            folder,
            head,
            base_model=self.base_model,
            base_architecture=architecture,
            about=about,
        )

    def _batch(self, examples: Sequence[Example], *, every: bool) -> Batch:
        drawn = [draw_places([each], self.places, self.steps + 1, every=every) for each in examples]
        rows = [torch.tensor(each.tokens) for each in examples]
        return {
            "taps": pad_sequence([each.taps for each in self.target.see(examples)], True),
            "tokens": pad_sequence(rows, batch_first=True),
            "places": pad_sequence([each.token for each in drawn], batch_first=True),
            # The target itself predicts the first token after a place; padding weighs nothing.
            "following": pad_sequence([each.following[:, 1:] for each in drawn], True),
            "weights": pad_sequence([each.weights[:, 1:] for each in drawn], True),
        }

    def _judged(
        self, module: nn.Module, batch: Batch
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        assert isinstance(module, EagleTraining)
        where = (batch[name].to(self.target.device) for name in ("taps", "tokens", "places"))
        for step, logits in enumerate(module.walk(*where)):
            counts = batch["weights"][..., step] == 1.0
            right = module.draft_index.cpu()[batch["following"][..., step]]
            yield logits.cpu()[counts], right[counts]

    def told(self) -> Mapping[str, Any]:
        return {
            "kind": "eagle",
            "taps": list(self.taps),
            "draft_vocabulary": len(self.draft_ids),
            "intermediate_size": self.intermediate_size,
        }


def eagle_lesson(
    loaded: LoadedModel,
    examples: Sequence[Example],
    *,
    vocabulary: int,
    intermediate: int | None,
    depth: int,
    places: int,
) -> EagleLesson:
    """Make a lesson of a head which predicts the tokens that are most frequent in the examples.

    Its MLP is ``intermediate`` wide (``None``: as the model's), and it is trained for ``depth``
    steps on its own features, at ``places`` places of each text.
    """
    config = loaded.module.config.get_text_config()
    layers = int(config.num_hidden_layers)
    taps = default_taps(layers)
    if not 0 < taps[0] < taps[1] < taps[2]:
        raise RequestError(
            f"{loaded.name} has {layers} layers, too few for a head that reads three of them",
            hint="train Medusa heads, which read the last one",
        )
    target = FrozenTarget(loaded.module, taps=taps)
    whole = len(target.embedding)
    return EagleLesson(
        target=target,
        base_model=loaded.name,
        taps=taps,
        draft_ids=most_frequent(examples, min(vocabulary, whole), whole),
        intermediate_size=intermediate or int(config.intermediate_size),
        steps=depth,
        places=places,
    )


def _plain_rope(config: Any) -> dict[str, Any]:
    """Return rotary positions that rotate as fast as the target's."""
    told = getattr(config, "rope_parameters", None) or {}
    return {"rope_type": "default", "rope_theta": float(told.get("rope_theta", 10_000.0))}


@torch.no_grad()
def _begin(head: EagleHead, target: FrozenTarget) -> None:
    """Make a head begin with the target's embedding, its head, its highest tap."""
    for name, parameter in head.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=_SPREAD)
        elif not name.endswith("norm.weight"):
            nn.init.zeros_(parameter)
    hidden = head.shape.hidden_size
    head.fc.weight[:, -hidden:] += torch.eye(hidden)
    head.lm_head.weight.copy_(target.head[head.draft_ids().to(target.device)])
    head.use_embedding(target.embedding)
