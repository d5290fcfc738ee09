"""Every causal type of transformers answers as its own ``generate()`` does, or is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kit.causal_table import PAGE, read_table, save_draft, table_text
from tests.kit.causal_types import CAUSAL_TYPES
from tests.kit.causal_verdicts import verdict_on
from tests.kit.effort import is_long

_TRIED = CAUSAL_TYPES if is_long() else tuple(sorted(random.Random(26).sample(CAUSAL_TYPES, 12)))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_draft(tmp_path_factory.mktemp("draft"))


@pytest.mark.parametrize("model_type", _TRIED)
@pytest.mark.filterwarnings("ignore")  # transformers warns of what tiny configs leave out
def test_a_type_is_equal_or_refused_as_the_page_says(
    model_type: str, draft: Path, tmp_path: Path
) -> None:
    told = read_table(PAGE.read_text("utf-8"))[model_type]
    verdict = verdict_on(model_type, tmp_path, draft)
    assert read_table(table_text([verdict]))[model_type] == told


def test_the_page_has_every_type() -> None:
    assert tuple(sorted(read_table(PAGE.read_text("utf-8")))) == CAUSAL_TYPES
