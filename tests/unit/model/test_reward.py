"""Scores of answers are those of transformers, with the prompt computed once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedModel,
)

from guided.errors import LimitExceededError, ModelError, RequestError
from guided.model.reward import RewardModel, load_reward_model
from guided.spec import Message, TokenId, TokenPrompt
from tests.kit.tokenizers import real_tokenizer

QUESTION = (Message("system", "Be brief."), Message("user", "What is the capital of France?"))
ANSWERS = ["Paris.", "Paris, of course.", "", "I do not know", "Paris."]
WINDOW = 64


def make_config(**options: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=49_152,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=WINDOW,
        initializer_range=0.5,
        pad_token_id=None,
        **options,
    )


def make_model(**options: Any) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForSequenceClassification.from_config(make_config(**options))  # type: ignore[no-untyped-call]
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("reward")
    make_model(num_labels=1).save_pretrained(path)
    real_tokenizer("smollm2").save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def reward(folder: Path) -> RewardModel:
    return load_reward_model(str(folder), dtype=torch.float32)


def told_by_transformers(folder: Path, tokens: list[int]) -> float:
    model = LlamaForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        return float(model(input_ids=torch.tensor([tokens])).logits[0, 0])


def test_answers_to_messages_are_scored_in_the_chat_template(
    folder: Path, reward: RewardModel
) -> None:
    expected = []
    for answer in ANSWERS:
        turns = [{"role": turn.role, "content": turn.content} for turn in QUESTION]
        turns.append({"role": "assistant", "content": answer})
        tokens: Any = real_tokenizer("smollm2").apply_chat_template(turns, return_dict=False)
        expected.append(told_by_transformers(folder, tokens))
    assert reward.scores(QUESTION, ANSWERS) == pytest.approx(expected, abs=1e-4)
    assert len({round(score, 3) for score in expected}) == 4


def test_neither_a_message_nor_an_answer_begins_a_turn(reward: RewardModel) -> None:
    def ends(question: str, answer: str) -> int:
        tokens: list[int] = vars(RewardModel)["_tokens"](
            reward, (Message("user", question),), answer
        )
        return tokens.count(real_tokenizer("smollm2").convert_tokens_to_ids("<|im_end|>"))  # type: ignore[arg-type]

    assert ends("a<|im_end|>", "<|im_end|>b") == ends("a", "b") > 0


@pytest.mark.parametrize("answers", [ANSWERS, ["one"], ["a", "a b", "a b c"]])
def test_answers_to_a_plain_prompt_follow_it(
    folder: Path, reward: RewardModel, answers: list[str]
) -> None:
    expected = [
        told_by_transformers(folder, real_tokenizer("smollm2").encode("The capital is" + answer))
        for answer in answers
    ]
    assert reward.scores("The capital is", answers) == pytest.approx(expected, abs=1e-4)


def test_the_weights_go_where_they_are_to_be(folder: Path) -> None:
    """As far as a device without memory shows: none of its numbers can be read."""
    placed = load_reward_model(str(folder), device=torch.device("meta"))
    with pytest.raises(RuntimeError, match="meta tensors"):
        placed.scores("The capital is", ANSWERS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_scores_on_cuda_are_those_of_the_cpu(folder: Path, reward: RewardModel) -> None:
    placed = load_reward_model(str(folder), dtype=torch.float32, device=torch.device("cuda", 0))
    for prompt in (QUESTION, "The capital is"):
        expected = reward.scores(prompt, ANSWERS)
        assert placed.scores(prompt, ANSWERS) == pytest.approx(expected, abs=1e-3)


def test_the_prompt_is_computed_once(folder: Path) -> None:
    model = LlamaForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    fed: list[int] = []
    model.base_model.register_forward_pre_hook(lambda _, args: fed.append(args[0].shape[1]))
    reward = RewardModel("r", model, real_tokenizer("smollm2"))
    prompt = "one two three four five six seven"
    reward.scores(prompt, [" eight", " nine ten"])
    assert fed == [7, 1, 2]


def test_a_prompt_that_cannot_be_read_is_refused(folder: Path, reward: RewardModel) -> None:
    with pytest.raises(LimitExceededError) as caught:
        reward.check("word " * WINDOW)
    assert str(caught.value) == (
        f"prompt and answer have {WINDOW + 1} tokens for {folder}, which reads {WINDOW}; shorten "
        "the prompt, lower max_tokens, or rank by likelihood"
    )
    plain = load_reward_model(str(folder))
    vars(plain)["_tokenizer"].chat_template = None
    with pytest.raises(RequestError, match="has no chat template, so it cannot score answers"):
        plain.check(QUESTION)
    with pytest.raises(RequestError, match="a reward model reads texts, and the prompt is tokens"):
        reward.check(TokenPrompt([TokenId(1)]))


def test_a_score_that_is_not_a_number_is_refused(folder: Path) -> None:
    model = LlamaForSequenceClassification.from_pretrained(folder)
    torch.nn.init.constant_(model.score.weight, math.nan)
    with pytest.raises(ModelError, match="the score that r gives is not a number"):
        RewardModel("r", model, real_tokenizer("smollm2")).scores("x", ["y"])


def test_what_is_no_reward_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="reward model 'nowhere' is not a folder"):
        load_reward_model("nowhere")
    real_tokenizer("smollm2").save_pretrained(tmp_path)
    make_model(num_labels=3).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has 3 labels, but a reward model has one score"):
        load_reward_model(str(tmp_path))
    LlamaForCausalLM(make_config()).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"are no reward model: score\.weight is missing"):
        load_reward_model(str(tmp_path))
