"""Reward models: how good an answer to a prompt is, by a decoder with a score as its head."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from guided.errors import LimitExceededError, ModelError, RequestError
from guided.model.chat_encoder import ChatEncoder
from guided.model.device import CPU
from guided.model.load import native_dtype
from guided.model.transformers_calls import quiet_transformers, reading
from guided.model.turns import Ending
from guided.spec import EnginePrompt, Message, TokenPrompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["RewardModel", "load_reward_model"]


class RewardModel:
    """Scores each answer to a prompt, which is computed once for all of them.

    It reads texts with its own tokenizer and chat template, as it was trained on them.
    """

    def __init__(self, name: str, module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase):
        """``module`` is a decoder of transformers for sequence classification with one label."""
        self._name = name
        self._tokenizer = tokenizer
        self._texts = ChatEncoder(name, tokenizer)
        self._decoder: Any = module.base_model
        self._device = module.device
        self._head: Any = getattr(module, "score", None)
        self._longest: int | None = getattr(module.config, "max_position_embeddings", None)
        labels = module.config.num_labels
        if labels != 1:
            raise ModelError(f"{name} has {labels} labels, but a reward model has one score")
        if self._head is None or self._decoder is module:
            raise ModelError(
                f"{name} ({type(module).__name__}) is no decoder with a score for a head",
                hint="name a model such as LlamaForSequenceClassification",
            )

    def check(self, prompt: EnginePrompt) -> None:
        """Raise ``RequestError`` if the prompt cannot be read."""
        self._tokens(prompt, "")

    @torch.inference_mode()
    def scores(self, prompt: EnginePrompt, answers: Sequence[str]) -> list[float]:
        """Return the score of each answer to the prompt."""
        texts = [self._tokens(prompt, answer) for answer in answers]
        # Each text keeps at least one token, after which the score is read.
        shared = min(_in_common(texts), min(map(len, texts)) - 1)
        past = None
        if shared > 0:
            past = self._decoder(self._row(texts[0][:shared]), use_cache=True).past_key_values
        return [self._score(text[shared:], copy.deepcopy(past)) for text in texts]

    def _score(self, tokens: list[int], past: object) -> float:
        output = self._decoder(self._row(tokens), past_key_values=past, use_cache=past is not None)
        score = float(self._head(output.last_hidden_state[0, -1]))
        if not math.isfinite(score):
            raise ModelError(f"the score that {self._name} gives is not a number")
        return score

    def _row(self, tokens: list[int]) -> torch.Tensor:
        return torch.tensor([tokens], device=self._device)  # [1, tokens]

    def _tokens(self, prompt: EnginePrompt, answer: str) -> list[int]:
        """Return prompt and answer as the reward model reads them, by its own chat template."""
        if isinstance(prompt, TokenPrompt):
            raise RequestError(
                "a reward model reads texts, and the prompt is tokens of another model",
                field="rank",
                hint="pass the prompt as a text or as messages, or rank by likelihood",
            )
        if isinstance(prompt, str):
            tokens = self._texts.encode_text(prompt + answer, allow_special_tokens=True)
        else:
            if self._tokenizer.chat_template is None:
                raise RequestError(
                    f"{self._name} has no chat template, so it cannot score answers to messages",
                    field="rank",
                    hint="pass a plain prompt, or rank by likelihood",
                )
            turns = (*prompt, Message("assistant", answer))
            text = self._texts.render(turns, ending=Ending.LAST_TURN)
            # Neither a message nor an answer can fake the beginning of a turn.
            tokens = self._texts.encode_messages(
                turns, text, allow_special_tokens=False, ending=Ending.LAST_TURN
            )
        if self._longest is not None and len(tokens) > self._longest:
            raise LimitExceededError(
                f"prompt and answer have {len(tokens)} tokens for {self._name}, which reads "
                f"{self._longest}",
                limit=self._longest,
                field="rank",
                hint="shorten the prompt, lower max_tokens, or rank by likelihood",
            )
        return tokens


def load_reward_model(
    folder: str, *, dtype: torch.dtype | None = None, device: torch.device = CPU
) -> RewardModel:
    """Read a model for sequence classification, with its tokenizer, from a folder.

    ``dtype`` is that of the weights (``None``: the fastest that the device computes with).
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from_pretrained: Callable[..., tuple[PreTrainedModel, dict[str, Collection[str]]]] = cast(
        "Any", AutoModelForSequenceClassification.from_pretrained
    )
    path = Path(folder)
    if not path.is_dir():
        raise ModelError(f"reward model {folder!r} is not a folder")
    with reading("tokenizer", path):
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    with quiet_transformers(), reading("weights", path):
        module, found = from_pretrained(
            path,
            dtype=dtype or native_dtype(device),
            device_map=device,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    # Transformers would make them up and only warn, as for a model without a head for scores.
    if missing := sorted(found["missing_keys"]):
        raise ModelError(
            f"the weights of {path} are no reward model: {missing[0]} is missing",
            hint="name a folder that was saved from a model for sequence classification",
        )
    return RewardModel(folder, module, tokenizer)


def _in_common(texts: Sequence[Sequence[int]]) -> int:
    """Count the tokens with which all texts begin."""
    count = 0
    for tokens in zip(*texts, strict=False):
        if len(set(tokens)) > 1:
            break
        count += 1
    return count
