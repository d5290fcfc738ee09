"""The library leaves the settings of its process alone."""

from __future__ import annotations

import subprocess
import sys

_BEGIN = """
import sys, threading, guided

def check(schema):
    try:
        return guided.check(schema).shortest_answer
    except guided.GuidedError as error:
        return error

def nested(depth):
    definitions = {
        f"d{i}": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}},
        }
        for i in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "integer"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}

class Endless:  # each call goes through C, which has a stack of its own
    def __getattr__(self, name):
        return max([0], key=lambda _: getattr(self, name))

def ends_endless_recursion():
    try:
        Endless().anything
    except RecursionError:
        return True

limit = sys.getrecursionlimit()
"""
_PROGRAMS = {
    "accepted": """
assert check('{"type":"integer"}') == "0"
assert check(nested(200)).count('"a"') == 200
""",
    "refused": """
assert "nests too deeply" in str(check(nested(5_000)))
assert check('{"type":"integer","minimum":2,"maximum":1}').hint
""",
    "a grammar": """
from guided.grammar.lark import lower_lark
from guided.grammar.network import network_from_grammar
from guided.grammar.machine.grammar_machine import GrammarMachine
GrammarMachine(network_from_grammar(lower_lark('start: "a" start?')))
""",
    "while threads compile": """
schemas = [nested(150 + i) for i in range(2)]
threads = [threading.Thread(target=check, args=(schema,)) for schema in schemas]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    assert sys.getrecursionlimit() == limit
    assert ends_endless_recursion()
""",
}


def test_endless_recursion_of_others_is_ended_as_before() -> None:
    """By a RecursionError, at the set limit, and not by the end of the process."""
    after = "assert sys.getrecursionlimit() == limit\nassert ends_endless_recursion()\n"
    parts = [f"print({name!r}, flush=True)\n{text}{after}" for name, text in _PROGRAMS.items()]
    command = [sys.executable, "-c", "\n".join([_BEGIN, *parts])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    begun = done.stdout.splitlines()
    assert done.returncode == 0, (begun, done.returncode, done.stderr[-2000:])
    assert begun == [*_PROGRAMS]
