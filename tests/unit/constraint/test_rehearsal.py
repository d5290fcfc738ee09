"""What a process needs once is made before its first request."""

from __future__ import annotations

import json
import subprocess
import sys

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.spec import JsonSchema
from tests.kit.tiny_vocabulary import tiny_vocabulary

_LOADED_LATE = """
import sys
from numba.core.registry import CPUDispatcher

from guided.constraint import ConstraintCompiler
from guided.library import grammar_names, read_grammar
from guided.spec import Lark
from tests.kit.tiny_vocabulary import tiny_vocabulary

def loaded():
    ours = [module for name, module in sys.modules.items() if name.startswith("guided")]
    every = [each for module in ours for each in vars(module).values()]
    kernels = [each for each in every if type(each) is CPUDispatcher]
    return {(each.__qualname__, types) for each in kernels for types in each.signatures}

vocabulary = tiny_vocabulary()
compiler = ConstraintCompiler(vocabulary)
compiler.rehearse()
before = loaded()
assert before
for name in grammar_names():
    grammar = read_grammar(name)
    compiled = compiler.compile(Lark(grammar.text))
    for text in grammar.accepted[:10]:
        matcher = compiled.start()
        for byte in text.encode()[:100]:
            matcher.mask()
            matcher = matcher.advance(vocabulary.byte_ids[byte])
print(*sorted({name for name, _ in loaded() - before}))
"""


def test_after_a_rehearsal_formats_cost_little() -> None:
    ConstraintCompiler(tiny_vocabulary()).rehearse()
    compiler = ConstraintCompiler(tiny_vocabulary(), ConstraintLimits(compile_work=20_000))
    for name in ("idn-hostname", "email", "date-time", "regex"):
        schema = {"type": "string", "format": name}
        assert compiler.compile(JsonSchema(json.dumps(schema))).start().fits(1_000)


def test_after_a_rehearsal_grammars_load_no_kernels() -> None:
    command = [sys.executable, "-c", _LOADED_LATE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert not done.stdout.split()
