"""Uses an installed wheel: compiles, makes masks, serves over both interfaces, and calls."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, Field

import guided
from guided import testing
from guided.compiler import Compiler, Vocabulary
from guided.runtime.native import is_native
from guided.spec import JsonSchema, TokenId

_THREADS = 4
_ROUNDS = 20
_END = 256


class Ticket(BaseModel):
    """The type of the answer."""

    title: str = Field(max_length=20)
    urgent: bool


def main() -> None:
    assert is_native(), "the wheel is interpreted"
    assert "site-packages" in str(guided.__file__), f"{guided.__file__} was not installed"
    compiler = _compiler()
    answers = [f'{{"k{number}":["é",true,{number}]}}' for number in range(_THREADS)]
    alone = [_masks(compiler, answer) for answer in answers]
    shared = _compiler()
    with ThreadPoolExecutor(_THREADS) as pool:
        rounds = range(_ROUNDS)
        together = pool.map(lambda answer: [_masks(shared, answer, at) for at in rounds], answers)
    assert [*together] == [[masks] * _ROUNDS for masks in alone], "threads have each other's masks"
    _ask_over_both_faces()
    print(f"used on {sys.version.split()[0]}")


def _compiler() -> Compiler:
    """A compiler for a vocabulary of bytes."""
    spell: Callable[[str], list[int]] = lambda text: [*text.encode()]  # noqa: E731 - typed
    tokens = (*(bytes((byte,)) for byte in range(_END)), None)
    return Compiler(Vocabulary(tokens, frozenset({TokenId(_END)}), spell))


def _masks(compiler: Compiler, answer: str, at: int = 0) -> list[bytes]:
    """The masks at each place of an answer, which its schema has to accept.

    They are the same in each round ``at``, but each has another schema, whose masks are new.
    """
    schema = {"enum": [json.loads(answer), {"other": at}]}
    matcher = compiler.compile(JsonSchema(json.dumps(schema))).matcher()
    bitmask, masks = compiler.bitmask(rows=1), []
    for byte in answer.encode():
        matcher.fill_bitmask(bitmask)
        masks.append(bitmask.tobytes())
        assert matcher.accept([byte]), f"{byte} was refused in {answer}"
    assert matcher.is_complete
    return masks


def _ask_over_both_faces() -> None:
    with testing.Server(http=True) as server, guided.Client(server.address) as client:
        assert isinstance(client.generate("The printer burns.", Ticket).value, Ticket)
        body = {
            "model": client.model().name,
            "messages": [{"role": "user", "content": "The printer burns."}],
            "guided_json": Ticket.model_json_schema(),
        }
        asked = urllib.request.Request(  # noqa: S310 - of this machine
            f"{server.http_url}/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked) as response:  # noqa: S310
            told = json.load(response)
        Ticket.model_validate_json(told["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
