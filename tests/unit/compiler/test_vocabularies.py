"""The tokenizers that a compiler accepts; all forms of one give one vocabulary."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from transformers import AutoTokenizer

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


_ADDED = {"__type": "AddedToken", "content": "[x]"}
_SPECIAL = "Ġend", "[x]", "<tool_call>", "new"
"""A token like others, two that were added as text, and one that ``tokenizer.json`` lacks."""


def _listed(*texts: str, special: bool) -> dict[str, object]:
    entry = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        str(7000 + place): entry | {"content": text, "special": special}
        for place, text in enumerate(texts)
    }


@pytest.mark.parametrize(
    ("file", "written", "special"),
    [
        ("tokenizer_config", {"pad_token": "Ġend", "unk_token": _ADDED}, _SPECIAL[:2]),
        ("tokenizer_config", {"image_token": "[x]", "add_bos_token": True}, ["[x]"]),
        ("tokenizer_config", {"additional_special_tokens": [*_SPECIAL]}, _SPECIAL),
        ("tokenizer_config", {"extra_special_tokens": {"image": "Ġend"}}, ["Ġend"]),
        ("tokenizer_config", {"extra_special_tokens": [*_SPECIAL]}, _SPECIAL),
        ("tokenizer_config", {"added_tokens_decoder": _listed(*_SPECIAL, special=True)}, _SPECIAL),
        ("tokenizer_config", {"added_tokens_decoder": _listed(*_SPECIAL[1:], special=False)}, []),
        ("special_tokens_map", {"cls_token": {"content": "<tool_call>"}}, ["<tool_call>"]),
    ],
)
def test_a_folder_says_which_tokens_are_special_as_transformers_reads_it(
    file: str, written: dict[str, object], special: Sequence[str], tmp_path: Path
) -> None:
    tokenizer = BUILT["built like GPT-2"]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    # The general class: any other has special tokens of its own.
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    path = tmp_path / f"{file}.json"
    path.write_text(json.dumps(config | written))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    expected, found = vocabulary_of(theirs), vocabulary_of(tmp_path)
    ids = theirs.get_vocab()
    assert {*special} == {
        text for text in _SPECIAL if text in ids and found.token_bytes[ids[text]] is None
    }
    assert found.digest == expected.digest
    text = 'the end[x]<tool_call> the "new" end'
    assert [*found.spell(text)] == [*expected.spell(text)]


@pytest.mark.parametrize(
    ("file", "written", "message"),
    [
        ("config", {"eos_token_id": "x"}, 'names "x" as eos_token_id, which is no number of a'),
        ("config", {"eos_token_id": [1, True]}, "names true as eos_token_id, which is no number"),
        ("generation_config", [], "holds no JSON object; fetch the model again"),
        ("tokenizer_config", {"added_tokens_decoder": {"x": {}}}, "lists added tokens that are"),
        ("tokenizer_config", {"added_tokens_decoder": {"7": "x"}}, "lists added tokens that are"),
        ("tokenizer_config", {"added_tokens_decoder": [7]}, "lists added tokens that are none"),
        ("tokenizer", {"added_tokens": []}, "describes no tokenizer: Model missing"),
    ],
)
def test_files_of_a_folder_that_make_no_sense_are_named(
    file: str, written: object, message: str, tmp_path: Path
) -> None:
    BUILT["built like GPT-2"]().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / f"{file}.json").write_text(json.dumps(written))
    with pytest.raises(ModelError) as caught:
        vocabulary_of(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / file}.json {message}")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"merges": [["zzq", "a"]]}, "Token `zzq` out of vocabulary"),
        # The library itself fails at this, with what is no Exception.
        ({"continuing_subword_prefix": "####"}, "range end index "),
    ],
)
def test_a_description_that_contradicts_itself_is_named(
    model: dict[str, object], message: str, tmp_path: Path
) -> None:
    description = json.loads(BUILT["built like GPT-2"]().to_str())
    description["model"] |= model
    (tmp_path / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(ModelError) as caught:
        vocabulary_of(tmp_path)
    start = f"{tmp_path / 'tokenizer.json'} describes no tokenizer: {message}"
    assert str(caught.value).startswith(start)


def test_parts_that_a_description_leaves_out_are_none(tmp_path: Path) -> None:
    tokenizer = BUILT["built with fallback"]()
    description = json.loads(tokenizer.to_str())
    expected = vocabulary_of(tokenizer, [2])
    for part in ("pre_tokenizer", "post_processor", "truncation", "version"):
        del description[part]
    (tmp_path / "tokenizer.json").write_text(json.dumps(description))
    assert vocabulary_of(tmp_path, [2]).digest == expected.digest


def test_tokens_without_logits_are_left_out() -> None:
    tokenizer = BUILT["built like GPT-2"]()
    end = tokenizer.encode("<|im_end|>", add_special_tokens=False).ids[0]
    compiler = Compiler(tokenizer, end_ids=[end], num_logits=350)
    assert len(compiler.vocabulary) == 350
    assert compiler.bitmask(3).shape == (3, 11)


def test_errors_for_an_unusable_tokenizer_say_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{")
    built, whole = BUILT["built like GPT-2"](), "give whole numbers, counted from 0"
    cases: list[tuple[object, dict[str, object], type[GuidedError], str]] = [
        (5, {}, ModelError, "a int is no tokenizer; pass a tokenizer of transformers or"),
        (tmp_path, {}, ModelError, "has no tokenizer.json; name the folder of a model with a fast"),
        (broken, {}, ModelError, "describes no tokenizer: EOF while parsing"),
        (built, {}, ModelError, "no end-of-sequence token is known, so no"),
        (
            built,
            {"end_ids": [10**9]},
            ModelError,
            "1000000000 is none of the tokenizer, whose last",
        ),
        (built, {"end_ids": [-1]}, ModelError, "-1 is none of the tokenizer, whose last token is"),
        (built, {"end_ids": ["x"]}, RequestError, whole),
        (built, {"end_ids": [True]}, RequestError, f"end_ids: a truth value is no number; {whole}"),
        (built, {"end_ids": [0.5]}, RequestError, whole),
        (built, {"end_ids": [0], "num_logits": 0}, RequestError, "num_logits is 0; give how many"),
        (built, {"end_ids": [0], "num_logits": 9.5}, RequestError, whole),
        (tiny_vocabulary(), {"end_ids": [0]}, RequestError, "a Vocabulary already says which"),
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
