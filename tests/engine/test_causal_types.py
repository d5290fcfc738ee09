"""Every causal type of transformers answers as its own ``generate()`` does, or is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kit.causal_table import PAGE, read_table, save_draft, table_text
from tests.kit.causal_types import CAUSAL_TYPES, tiny_config
from tests.kit.causal_verdicts import verdict_on
from tests.kit.effort import is_long

_TRIED = CAUSAL_TYPES if is_long() else tuple(sorted(random.Random(26).sample(CAUSAL_TYPES, 12)))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_draft(tmp_path_factory.mktemp("draft"))


@pytest.mark.parametrize("model_type", _TRIED)
@pytest.mark.filterwarnings("ignore")  # transformers warns of settings that tiny configs leave out
def test_a_type_is_equal_or_refused_as_the_page_says(
    model_type: str, draft: Path, tmp_path: Path
) -> None:
    told = read_table(PAGE.read_text("utf-8"))[model_type]
    verdict = verdict_on(model_type, tmp_path, draft)
    assert read_table(table_text([verdict]))[model_type] == told


@pytest.mark.parametrize("model_type", ["mistral3", "qwen2_5_vl", "qwen3_vl", "llava"])
@pytest.mark.filterwarnings("ignore")
def test_models_of_texts_and_images_answer_texts(
    model_type: str, draft: Path, tmp_path: Path
) -> None:
    assert verdict_on(model_type, tmp_path, draft).is_equal


@pytest.mark.filterwarnings("ignore")
def test_a_hybrid_of_attention_alone_answers(draft: Path, tmp_path: Path) -> None:
    """Its config has the sizes of a state that none of its layers keeps."""
    config = tiny_config("granitemoehybrid")
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    assert config.mamba_d_state is not None
    assert verdict_on("granitemoehybrid", tmp_path, draft, config).is_equal


def test_the_page_has_every_type() -> None:
    assert tuple(sorted(read_table(PAGE.read_text("utf-8")))) == CAUSAL_TYPES
