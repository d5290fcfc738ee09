"""Regular expressions of ECMA-262 as node matches them, in one child process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Node", "has_node"]

_SERVE: Final = """
const vm = require('node:vm');
const lines = require('node:readline').createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { pattern, flags, texts } = JSON.parse(line);
  let answer = null;
  try {
    const made = new RegExp(pattern, flags);
    const all = 'texts.map((text) => made.test(text))';
    answer = [...vm.runInNewContext(all, { made, texts }, { timeout: 2000 })];
  } catch (error) {
    const expected = error instanceof SyntaxError || error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    if (!expected) throw error;
  }
  process.stdout.write(JSON.stringify(answer) + '\\n');
});
"""


def has_node() -> bool:
    """Whether this machine has node."""
    return shutil.which("node") is not None


class Node:
    """Answers one question after another; the process lives as long as the object."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", "--eval", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def __del__(self) -> None:
        self._process.kill()
        self._process.communicate()

    @staticmethod
    def unicode_version() -> str:
        """Node's version of Unicode, such as ``17.0``."""
        command = ["node", "--print", "process.versions.unicode"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    def found_in(self, pattern: str, flags: str, texts: Sequence[str]) -> list[bool]:
        """Whether a valid pattern is found in each of the texts."""
        found = self.found(pattern, flags, texts)
        assert found is not None, pattern
        return found

    def found(self, pattern: str, flags: str, texts: Sequence[str]) -> list[bool] | None:
        """Whether the pattern is found in each of the texts.

        ``None`` if the pattern is invalid, or takes two seconds.
        """
        question = {"pattern": pattern, "flags": flags, "texts": texts}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(question).encode() + b"\n")
        stdin.flush()
        answer: Any = json.loads(stdout.readline())
        return None if answer is None else [bool(each) for each in answer]
