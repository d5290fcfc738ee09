"""Things that a process needs once are made before its first request."""

from __future__ import annotations

import json
import subprocess
import sys

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.spec import JsonSchema
from tests.kit.tiny_vocabulary import tiny_vocabulary

_LOADED_LATE = """
import json
import random
import sys
from contextlib import suppress
from numba.core.registry import CPUDispatcher

from guided.constraint import ConstraintCompiler
from guided.errors import GuidedError
from guided.spec.library import grammar_names, read_grammar
from guided.spec import Forcing, JsonOptions, JsonSchema, Lark
from tests.kit.hard_schemas import hard_document, hard_schema
from tests.kit.tiny_vocabulary import tiny_vocabulary

def loaded():
    ours = [module for name, module in sys.modules.items() if name.startswith("guided")]
    every = [each for module in ours for each in vars(module).values()]
    kernels = [each for each in every if type(each) is CPUDispatcher]
    return {(each.__qualname__, types) for each in kernels for types in each.signatures}

def of_grammars():
    for name in grammar_names():
        grammar = read_grammar(name)
        yield Lark(grammar.text), [text.encode() for text in grammar.accepted[:10]]

def of_schemas():
    options = JsonOptions(whitespace=0, max_string_length=None, max_number_digits=None)
    for seed in range(150):
        rng = random.Random(seed)
        schema = json.dumps(hard_schema(rng))
        documents = [json.dumps(hard_document(rng), separators=(",", ":")) for _ in range(3)]
        yield JsonSchema(schema, options), [document.encode() for document in documents]
    wide = {"properties": {f"name{n}": {"enum": [f"red{n}", f"blue{n}"]} for n in range(9)}}
    for is_open in (True, False):
        schema = wide | {"type": "object", "additionalProperties": is_open}
        documents = b'{"name1":"red1","name8":"blue8"}', b'{"x":1,"x'
        yield JsonSchema(json.dumps(schema), options), documents

vocabulary = tiny_vocabulary()
compiler = ConstraintCompiler(vocabulary)
compiler.rehearse()
before = loaded()
assert before
for constraints in (of_grammars, of_schemas):
    followed = 0
    for constraint, texts in constraints():
        with suppress(GuidedError):
            compiled = compiler.compile(constraint)
            for text in texts:
                matcher = compiled.start()
                for byte in text[:100]:
                    matcher.mask()
                    matcher.forced_run(Forcing.CANONICAL)
                    token = vocabulary.byte_ids[byte]
                    if not matcher.allows(token):
                        break
                    matcher = matcher.advance(token)
                    followed += 1
    assert followed > 1_000, (constraints, followed)
    print(*sorted({f"{constraints.__name__}: {name}" for name, _ in loaded() - before}))
"""


def test_after_a_rehearsal_formats_cost_little() -> None:
    ConstraintCompiler(tiny_vocabulary()).rehearse()
    compiler = ConstraintCompiler(tiny_vocabulary(), ConstraintLimits(compile_work=20_000))
    for name in ("idn-hostname", "email", "date-time", "regex"):
        schema = {"type": "string", "format": name}
        assert compiler.compile(JsonSchema(json.dumps(schema))).start().can_complete_within(1_000)


def test_after_a_rehearsal_no_kernels_are_loaded() -> None:
    command = [sys.executable, "-c", _LOADED_LATE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert not done.stdout.split()
