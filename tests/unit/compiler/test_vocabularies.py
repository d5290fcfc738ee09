"""What a compiler takes for a tokenizer, and that all forms of one are one vocabulary."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from guided.compiler import Compiler
from guided.compiler.vocabularies import vocabulary_of
from guided.errors import GuidedError, ModelError, RequestError
from tests.kit.built_tokenizers import BUILT, loaded
from tests.kit.tiny_vocabulary import tiny_vocabulary


@pytest.mark.parametrize("name", ["built like GPT-2", "built with fallback", "built unigram"])
def test_every_form_of_a_tokenizer_is_the_same_vocabulary(name: str, tmp_path: Path) -> None:
    tokenizer = BUILT[name]()
    end = "<|im_end|>" if name == "built like GPT-2" else "</s>"
    end_id = tokenizer.encode(end, add_special_tokens=False).ids[0]
    wrapped = loaded(tokenizer)
    wrapped.add_special_tokens({"eos_token": end})
    wrapped.save_pretrained(tmp_path)
    expected = vocabulary_of(tokenizer, [end_id])
    for form in (wrapped, tmp_path, str(tmp_path), expected):
        found = vocabulary_of(form)
        assert found.digest == expected.digest
        assert [*found.spell('{"a": 1}')] == [*expected.spell('{"a": 1}')]


def test_a_folder_says_by_which_tokens_answers_end(tmp_path: Path) -> None:
    tokenizer = BUILT["built like GPT-2"]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    named = [tokenizer.token_to_id("<|im_end|>")]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": named}))
    assert vocabulary_of(tmp_path).end_ids == {*named}
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": named[0]}))
    assert vocabulary_of(tmp_path).end_ids == {*named}
    (tmp_path / "config.json").unlink()
    saved = {"eos_token": {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(saved))
    assert vocabulary_of(tmp_path).end_ids == {*named}


def test_tokens_without_logits_are_left_out() -> None:
    tokenizer = BUILT["built like GPT-2"]()
    end = tokenizer.encode("<|im_end|>", add_special_tokens=False).ids[0]
    compiler = Compiler(tokenizer, end_ids=[end], num_logits=350)
    assert len(compiler.vocabulary) == 350
    assert compiler.bitmask(3).shape == (3, 11)


def test_what_cannot_be_a_tokenizer_is_told_with_the_way_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{")
    cases: list[tuple[object, dict[str, object], type[GuidedError], str]] = [
        (5, {}, ModelError, "a int is no tokenizer; pass a tokenizer of transformers or"),
        (tmp_path, {}, ModelError, "has no tokenizer.json; name the folder of a model with a fast"),
        (broken, {}, ModelError, "is not JSON"),
        (BUILT["built like GPT-2"](), {}, ModelError, "no end-of-sequence token is known, so no"),
        (tiny_vocabulary(), {"end_ids": [0]}, RequestError, "a vocabulary says itself which"),
        (tiny_vocabulary(), {"num_logits": 9}, RequestError, "pass end_ids and num_logits with"),
    ]
    for tokenizer, options, kind, message in cases:
        with pytest.raises(kind) as caught:
            Compiler(tokenizer, **options)  # type: ignore[arg-type]
        assert message in str(caught.value)


_ALONE = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "grpc", "google", "zmq", "msgspec"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from guided.compiler import Compiler, fill_bitmasks, fill_tree

compiler = Compiler(sys.argv[1])
matcher = compiler.compile({"enum": ["red", "green"]}).matcher()
bitmask = compiler.bitmask(3)
while not matcher.is_terminated:
    fill_bitmasks([matcher], bitmask)
    tokens = matcher.forced() or matcher.shortest_completion() or [*compiler.vocabulary.end_ids]
    fill_tree(matcher, [-1, 0], [0, tokens[0]], bitmask, 1)
    assert matcher.accept(tokens), tokens
print("written", matcher.num_tokens > 1)
"""


def test_a_compiler_needs_neither_torch_nor_grpc(tmp_path: Path) -> None:
    wrapped = loaded(BUILT["built like GPT-2"]())
    wrapped.add_special_tokens({"eos_token": "<|im_end|>"})
    wrapped.save_pretrained(tmp_path)
    command = [sys.executable, "-c", _ALONE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("written True\n", "")
