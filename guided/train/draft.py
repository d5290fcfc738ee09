"""A small model distilled from the target, to draft for it.

It is trained on the target's own answers: half of the loss is the cross-entropy of the tokens that
the target took, half the divergence of its distribution from the target's (Kullback-Leibler, the
target's first; cf. Zhou et al., *DistillSpec*, 2023). It has the target's tokenizer, and is either
a small Llama with random weights or made of some layers of the target.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from guided.drafters.heads.head_files import write_card
from guided.errors import RequestError
from guided.train.examples import Example, draw_places
from guided.train.lesson import Batch, Lesson, weighted_loss
from guided.train.target import FrozenTarget

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["DraftLesson", "DraftShape", "DraftTraining"]


@dataclass(frozen=True, slots=True)
class DraftShape:
    """The sizes of the small model."""

    layers: int = 2
    width: int = 256
    """Numbers in a hidden state."""
    heads: int = 4
    """Heads of the attention, each with its own keys."""
    from_layers: tuple[int, ...] = ()
    """Layers of the target to begin with instead, counted from 0, with the target's width."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise RequestError(f"width {self.width} is no multiple of the {self.heads} heads")


class DraftTraining(nn.Module):
    """The small model, and its loss at some places of its texts."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self._model = [model]  # in a list, because only its parts are trained
        self.decoder = model.base_model
        parts: Any = model
        self._is_tied = parts.get_output_embeddings().weight is parts.get_input_embeddings().weight
        if not self._is_tied:
            self.head = parts.get_output_embeddings()

    @property
    def model(self) -> PreTrainedModel:
        """The model that has these parts; it is trained with them."""
        return self._model[0]

    def logits(self, tokens: torch.Tensor, text: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """Return the model's logits after some places of a batch, ``[places, vocabulary]``."""
        decoder: Any = self.decoder
        states = decoder(input_ids=tokens, use_cache=False).last_hidden_state[text, token]
        # A matrix with two names would be written twice.
        matrix = decoder.get_input_embeddings().weight if self._is_tied else self.head.weight
        return nn.functional.linear(states, matrix)

    def forward(
        self,
        tokens: torch.Tensor,
        text: torch.Tensor,
        token: torch.Tensor,
        following: torch.Tensor,
        weights: torch.Tensor,
        teacher: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the loss; ``teacher`` are the target's logits, ``[places, vocabulary]``."""
        logits = self.logits(tokens, text, token).float()
        taken = weighted_loss(logits, following, weights)
        divergence = nn.functional.kl_div(
            logits.log_softmax(-1),
            teacher.float().log_softmax(-1),
            reduction="none",
            log_target=True,
        ).sum(-1)
        learned = (divergence * weights).sum() / weights.sum().clamp(min=1.0)
        return {"loss": 0.5 * taken + 0.5 * learned}


@dataclass(frozen=True, slots=True)
class DraftLesson(Lesson):
    """A small model for a target."""

    depth_name: ClassVar[str] = "token"

    target: FrozenTarget
    base_model: str
    """The target's name, for the card."""
    tokenizer: PreTrainedTokenizerBase
    shape: DraftShape
    places: int
    """Places of a batch that are trained on."""

    def make_module(self) -> DraftTraining:
        make = _cut if self.shape.from_layers else _make_small
        module = DraftTraining(make(self.target.module, self.shape))
        return module.to(self.target.device)

    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        assert isinstance(module, DraftTraining)
        model = module.model
        nn.Module.to(model, dtype=self.target.module.dtype)
        model.generation_config = copy.deepcopy(self.target.module.generation_config)
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        text = _CARD.format(base=self.base_model, about=about)
        title = f"A draft model for {self.base_model}"
        write_card(folder, self.base_model, title, text, library="transformers")

    def told(self) -> Mapping[str, Any]:
        return {"kind": "draft", **asdict(self.shape)}

    def _batch(self, examples: Sequence[Example], *, every: bool) -> Batch:
        places = draw_places(examples, self.places, 1, every=every)
        seen = self.target.see(examples)
        pairs = zip(places.text.tolist(), places.token.tolist(), strict=True)
        states = torch.stack([seen[text].last[token] for text, token in pairs])
        rows = [torch.tensor(each.tokens) for each in examples]
        with torch.no_grad():
            head = self.target.head
            teacher = nn.functional.linear(states.to(head.device), head)
        return {
            "tokens": pad_sequence(rows, batch_first=True),
            "text": places.text,
            "token": places.token,
            "following": places.following[:, 0],
            "weights": places.weights[:, 0],
            "teacher": teacher,
        }

    def _judged(
        self, module: nn.Module, batch: Batch
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        assert isinstance(module, DraftTraining)
        where = (batch[name].to(self.target.device) for name in ("tokens", "text", "token"))
        yield module.logits(*where).cpu(), batch["following"]


_CARD: Final = """
A small model with the tokenizer of {base}, whose next tokens it guesses. It was distilled from it.

{about}
"""


def _make_small(target: PreTrainedModel, shape: DraftShape) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM, LlamaConfig

    text = target.config.get_text_config()
    config = LlamaConfig(
        vocab_size=int(text.vocab_size),
        hidden_size=shape.width,
        intermediate_size=3 * shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=int(text.max_position_embeddings),
        bos_token_id=text.bos_token_id,
        eos_token_id=text.eos_token_id,
        pad_token_id=text.pad_token_id,
        tie_word_embeddings=True,
    )
    return cast("PreTrainedModel", AutoModelForCausalLM.from_config(config, dtype=torch.float32))  # type: ignore[no-untyped-call]


def _cut(target: PreTrainedModel, shape: DraftShape) -> PreTrainedModel:
    """Return the target with only some of its layers, in float32."""
    count = int(target.config.get_text_config().num_hidden_layers)
    wrong = [layer for layer in shape.from_layers if not 0 <= layer < count]
    if wrong:
        raise RequestError(f"the target has the layers 0 to {count - 1}, and no {wrong[0]}")
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(target.config)
    text = config.get_text_config()
    text.num_hidden_layers = len(shape.from_layers)
    if getattr(text, "layer_types", None):
        text.layer_types = [text.layer_types[layer] for layer in shape.from_layers]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
    weights = {}
    number = {f"layers.{old}.": f"layers.{new}." for new, old in enumerate(shape.from_layers)}
    for name, tensor in target.state_dict().items():
        where = next((old for old in number if old in name), None)
        if where is not None:
            weights[name.replace(where, number[where])] = tensor
        elif "layers." not in name:
            weights[name] = tensor
    model.load_state_dict(weights)
    return cast("PreTrainedModel", model)
