"""guided's grammar backend under the published classes of SGLang: run by test_sglang.py.

    python sglang_contract.py TOKENIZER_FOLDER SGLANG_FOLDER

Importing SGLang itself needs a GPU's libraries. So the classes of its interface, its registry and
its walk over a draft tree are taken unchanged from the files of the package in ``SGLANG_FOLDER``,
without the other imports of these files; none of them is rewritten here.
"""

from __future__ import annotations

import ast
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

WANTED = {
    "sglang.srt.arg_groups.choices": ("GRAMMAR_BACKEND_CHOICES", "add_grammar_backend_choices"),
    "sglang.srt.constrained.base_grammar_backend": (
        "GRAMMAR_BACKEND_REGISTRY",
        "GrammarStats",
        "GrammarRow",
        "BaseGrammarObject",
        "InvalidGrammarObject",
        "_grammar_key_contains_nul",
        "BaseGrammarBackend",
        "register_grammar_backend",
    ),
    "sglang.srt.speculative.spec_utils": ("traverse_tree",),
}
LIGHT = {"concurrent.futures", "dataclasses", "json", "logging", "time", "typing", "torch"}
SCHEMA = """{"type": "object", "properties": {"tags": {
    "type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true, "minItems": 2
}}, "required": ["tags"]}"""
TEXT = '{"tags":["a","b"]}'


def published(name: str, names: tuple[str, ...], folder: Path) -> ModuleType:
    """A module of some unchanged definitions of a file of SGLang."""
    file = folder / (name.replace(".", "/") + ".py")
    tree = ast.parse(file.read_text("utf-8"))
    body = [node for node in tree.body if _is_light(node) or _defines(node) & {*names}]
    made = ModuleType(name)
    known = sys.modules.get("sglang.srt.constrained.base_grammar_backend")
    made.__dict__.update(vars(known) if known else {})
    sys.modules[name] = made
    exec(compile(ast.Module(body, []), str(file), "exec"), made.__dict__)  # noqa: S102
    assert {*names} <= {*vars(made)}, f"{file} has not all of {names}"
    return made


def _is_light(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(each.name in LIGHT for each in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in LIGHT


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {each.id for each in node.targets if isinstance(each, ast.Name)}
    return set()


def main() -> None:
    folder = Path(sys.argv[2])
    for package in ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.constrained"):
        sys.modules[package] = ModuleType(package)
    choices, base, trees = (published(*each, folder) for each in WANTED.items())

    from guided.integrations.sglang import register

    for _ in range(2):
        register()
    assert choices.GRAMMAR_BACKEND_CHOICES.count("guided") == 1
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    size = len(tokenizer) + 64
    make = base.GRAMMAR_BACKEND_REGISTRY["guided"]
    backend = make(
        SimpleNamespace(reasoning_parser=None), tokenizer, size, {tokenizer.eos_token_id}
    )
    assert isinstance(backend, base.BaseGrammarBackend)
    every_kind_is_dispatched(base, backend)
    masks_lead_to_an_answer(base, backend, tokenizer, size)
    a_tree_is_walked(trees, backend, tokenizer, size)
    forced_text_is_jumped_over(backend, tokenizer)
    print("sglang", folder)


def compiled(backend: Any, kind: str, text: str) -> Any:
    """The grammar that SGLang gets for a key, in its own way; the second time from its cache."""
    value, is_known = backend.get_cached_or_future_value((kind, text), False)
    if not is_known:
        assert isinstance(value, Future)
        assert isinstance(backend.executor, ThreadPoolExecutor)
        value = value.result()
        backend.set_cache((kind, text), value.copy())
    return value


def every_kind_is_dispatched(base: Any, backend: Any) -> None:
    tag = '{"format": {"type": "const_string", "value": "a"}}'
    for kind, right, wrong, message in (
        ("json", SCHEMA, '{"type": "strin"}', "at /type"),
        ("json", "$$ANY$$", "{", "the schema is not JSON"),
        ("regex", "a+", "(a", "unterminated subpattern"),
        ("ebnf", 'root ::= "a"', "root ::= b", "'b' is not defined"),
        ("structural_tag", tag, '{"format": {}}', "at /format"),
    ):
        for _ in range(2):
            assert isinstance(compiled(backend, kind, right), base.BaseGrammarObject)
            refused = compiled(backend, kind, wrong)
            assert isinstance(refused, base.InvalidGrammarObject)
            assert message in refused.error_message, refused


def masks_lead_to_an_answer(base: Any, backend: Any, tokenizer: Any, size: int) -> None:
    tokens = [*tokenizer.encode(TEXT, add_special_tokens=False), tokenizer.eos_token_id]
    grammars = [compiled(backend, "json", SCHEMA) for _ in range(3)]
    for token in tokens:
        mask = grammars[0].allocate_vocab_mask(size, 4, "cpu")
        entries = [
            base.GrammarRow(row, each) for row, each in zip((3, 0, 1), grammars, strict=True)
        ]
        grammars[0].fill_vocab_mask_batched(entries, mask)
        assert (mask[2] == -1).all()
        assert (mask[3] == mask[0]).all()
        logits = torch.zeros((4, size))
        grammars[0].apply_vocab_mask(logits, grammars[0].move_vocab_mask(mask, "cpu"))
        assert logits[3, token] == 0
        assert logits[3, len(tokenizer) :].isneginf().all()
        assert not logits[2].isneginf().any()
        for grammar in grammars:
            grammar.accept_token(token)
    assert all(grammar.is_terminated() for grammar in grammars)
    assert _refuses(grammars[0].copy(), tokens[-1])


def _refuses(grammar: Any, token: int) -> bool:
    try:
        grammar.accept_token(token)
    except ValueError:  # with this SGLang ends the request
        return True
    return False


def a_tree_is_walked(trees: Any, backend: Any, tokenizer: Any, size: int) -> None:
    """Two drafts after ``{"tags":["``: one that may come with a child, and one that may not."""
    right = tokenizer.encode(TEXT, add_special_tokens=False)
    wrong = tokenizer.encode(TEXT.replace('"b"', '"a"'), add_special_tokens=False)
    same = next(n for n, (one, other) in enumerate(zip(right, wrong, strict=False)) if one != other)
    grammar = compiled(backend, "json", SCHEMA)
    for token in right[:same]:
        grammar.accept_token(token)
    before, after = (grammar.allocate_vocab_mask(size, 1, "cpu") for _ in "ab")
    grammar.fill_vocab_mask(before, 0)
    mask = grammar.allocate_vocab_mask(size, 4, "cpu")
    drafts = torch.tensor([right[same - 1], wrong[same], right[same], right[same + 1]])
    children, siblings = torch.tensor([1, -1, 3, -1]), torch.tensor([-1, 2, -1, -1])
    trees.traverse_tree(children, siblings, drafts, grammar, mask, size)
    grammar.fill_vocab_mask(after, 0)
    assert (before == after).all()
    assert (mask[0] == before[0]).all()
    assert (mask[1] == -1).all(), "what may not come is not gone into"
    expected = grammar.allocate_vocab_mask(size, 1, "cpu")
    for row in (2, 3):
        grammar.accept_token(right[same + row - 2])
        grammar.fill_vocab_mask(expected, 0)
        assert (mask[row] == expected[0]).all()
    assert np.count_nonzero(mask[3].numpy()) > 0


def forced_text_is_jumped_over(backend: Any, tokenizer: Any) -> None:
    grammar = compiled(backend, "json", SCHEMA)
    helper = grammar.try_jump_forward(tokenizer)
    text, state = grammar.jump_forward_str_state(helper)
    assert TEXT.startswith(text)
    assert text.startswith('{"tags":[')
    first = tokenizer.encode("{", add_special_tokens=False)
    grammar.accept_token(first[0])
    whole = tokenizer.encode(text, add_special_tokens=False)
    grammar.jump_and_retokenize(first, whole, state)
    for token in tokenizer.encode(TEXT[len(text) :], add_special_tokens=False):
        grammar.accept_token(token)
    assert compiled(backend, "regex", "a|b").try_jump_forward(tokenizer) is None


if __name__ == "__main__":
    main()
