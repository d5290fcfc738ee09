"""Compares with transformers: `python -m benchmarks.free_text --model TARGET --draft DRAFT`.

Both get the same questions, tokens and pair of models, greedy, in one process and by turns: ours
without drafts, with look-ups and earlier answers, with the draft model, and with whichever of them
pays off (the default of a request); transformers' ``generate()`` without drafts, with
``prompt_lookup_num_tokens`` and with ``assistant_model``. For each question and way the fastest of
``--rounds`` counts, from prompt to last token. QUESTIONS are JSON lines in the format of
Spec-Bench, each {"category", "turns"}; those included (`free_text.jsonl`) were written for this
program. In a question of several turns, each is asked after transformers' own plain answers to
those before it.

Prints tokens per second, the speed-up over plain decoding *of the same side*, calls of the target
per token, answers that equal transformers' plain ones to the token, and the speed-up by category.
Answers are comparable with ``--dtype float32``: in bfloat16 a call of several tokens rounds
differently than calls of one, on both sides. With ``--clock cpu`` it measures processor seconds,
which with one thread are valid on a machine that does other work, unlike wall time. Whether drafts
pay off is always decided by wall time, as in a server.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

from guided.engine import load_engine
from guided.spec import NO_DRAFTER, GenerationRequest, GenerationResult, Message

QUESTIONS: Final = Path(__file__).with_suffix(".jsonl")
LOOKED_UP: Final = 10
"""Tokens that transformers copies from the prompt at once, as in its documentation."""
PLAIN, THEIRS_PLAIN = "guided, plain", "transformers, plain"


@dataclass(frozen=True, slots=True)
class Said:
    """One answer to one prompt, without a token that ends it."""

    tokens: tuple[int, ...]
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Prompt:
    """One turn of a question, with what was said before it."""

    category: str
    messages: tuple[Message, ...]


Clock: TypeAlias = Callable[[], float]
CLOCKS: Final[dict[str, Clock]] = {"wall": time.perf_counter, "cpu": time.process_time}
Way: TypeAlias = Callable[[Prompt, int], Said]
"""Answers a prompt; the number distinguishes rounds."""


class Peer:
    """The pair of models in transformers."""

    def __init__(self, options: argparse.Namespace) -> None:
        dtype = getattr(torch, options.dtype)
        load = partial(AutoModelForCausalLM.from_pretrained, dtype=dtype)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(options.model)
        self._target, self._draft = load(options.model), load(options.draft)
        self._most = options.max_tokens
        self._clock = CLOCKS[options.clock]
        self._calls = 0
        self._target.register_forward_hook(self._count)

    def text(self, tokens: Sequence[int]) -> str:
        """Return an answer as it is placed before the next question."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def ways(self) -> dict[str, Way]:
        """Return its ways: without drafts, and with its two kinds of drafts."""
        return {
            THEIRS_PLAIN: self._say,
            "transformers, prompt lookup": partial(self._say, prompt_lookup_num_tokens=LOOKED_UP),
            "transformers, assistant": partial(self._say, assistant_model=self._draft),
        }

    def _say(self, prompt: Prompt, number: int, **drafts: Any) -> Said:  # noqa: ARG002 - keeps nothing
        messages = [{"role": each.role, "content": each.content} for each in prompt.messages]
        self._calls, began = 0, self._clock()
        asked = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        output = self._target.generate(
            **asked, max_new_tokens=self._most, do_sample=False, **drafts
        )
        seconds = self._clock() - began
        said = output[0, asked["input_ids"].shape[1] :].tolist()
        ends = self._target.generation_config.eos_token_id
        ends = {*ends} if isinstance(ends, list) else {ends}
        return Said(tuple([token for token in said if token not in ends]), self._calls, seconds)

    def _count(self, *_: object) -> None:
        self._calls += 1


class Ours:
    """The pair of models in our engine."""

    def __init__(self, options: argparse.Namespace) -> None:
        # Nothing of prompts is kept, as transformers keeps nothing; the suffix cache keeps answers
        # by salt, and every way and round has its own.
        self._engine = load_engine(
            options.model,
            dtype=options.dtype,
            threads=options.threads,
            cache_tokens=options.cache_tokens,
            reuse_prefixes=False,
            drafters=("lookup", "suffix"),
            draft_models=(options.draft,),
            draft_widths=options.widths,
        )
        self._most = options.max_tokens
        self._clock = CLOCKS[options.clock]
        self._numbers = count()

    def ways(self) -> dict[str, Way]:
        """Return our ways, by drafter."""
        sets = {
            PLAIN: (NO_DRAFTER,),
            "guided, look-ups": ("lookup", "suffix"),
            "guided, draft model": ("draft",),
            "guided, what pays": (),
        }
        return {name: partial(self._say, name, drafters) for name, drafters in sets.items()}

    def _say(self, name: str, drafters: tuple[str, ...], prompt: Prompt, number: int) -> Said:
        request = GenerationRequest(
            prompt=prompt.messages,
            max_tokens=self._most,
            drafters=drafters,
            cache_salt=f"{name} {number}",
        )
        began = self._clock()
        self._engine.submit(str(next(self._numbers)), request)
        while True:
            for ended in self._engine.step():
                if not isinstance(ended.outcome, GenerationResult):
                    raise ended.outcome
                seconds = self._clock() - began
                return Said(ended.outcome.tokens, ended.outcome.usage.model_calls, seconds)


def prompts(path: Path, most: int, peer: Peer) -> Iterator[Prompt]:
    """Yield all turns of the first questions of each category."""
    by_category: dict[str, list[Sequence[str]]] = {}
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        by_category.setdefault(row["category"], []).append(row["turns"])
    for category, questions in by_category.items():
        for turns in questions[:most]:
            messages: list[Message] = []
            for turn in turns:
                messages.append(Message("user", turn))
                prompt = Prompt(category, tuple(messages))
                yield prompt
                if turn is not turns[-1]:
                    said = peer.ways()[THEIRS_PLAIN](prompt, 0)
                    messages.append(Message("assistant", peer.text(said.tokens)))


def measure(ways: Mapping[str, Way], asked: Sequence[Prompt], rounds: int) -> dict[str, list[Said]]:
    """Return for each way and prompt the fastest answer; all ways take turns in going first."""
    names, found = list(ways), dict[tuple[str, int], Said]()
    for way in ways.values():
        way(asked[0], -1)  # what is compiled or allocated once does not count
    for number in range(rounds):
        for place, prompt in enumerate(asked):
            first = (number + place) % len(names)
            for name in names[first:] + names[:first]:
                said = ways[name](prompt, number)
                before = found.get((name, place))
                if before is None or said.seconds < before.seconds:
                    found[name, place] = said
    return {name: [found[name, place] for place in range(len(asked))] for name in names}


def print_tables(asked: Sequence[Prompt], measured: Mapping[str, Sequence[Said]]) -> None:
    categories = list(dict.fromkeys([prompt.category for prompt in asked]))
    whole = Table("way", "tokens/s", "speed-up", "calls a token", "as transformers, plain")
    parts = Table("speed-up", *categories)
    expected = [said.tokens for said in measured[THEIRS_PLAIN]]
    for name, said in measured.items():
        plain = measured[PLAIN if name.startswith("guided") else THEIRS_PLAIN]
        same = sum([said.tokens == tokens for said, tokens in zip(said, expected, strict=True)])
        calls, tokens = sum([one.calls for one in said]), sum([len(one.tokens) for one in said])
        whole.add_row(
            name,
            f"{speed(said):.2f}",
            f"{speed(said) / speed(plain):.2f}",
            f"{calls / tokens:.3f}",
            f"{same} of {len(said)}",
        )
        ratios = []
        for category in categories:
            own = [place for place, prompt in enumerate(asked) if prompt.category == category]
            here, there = ([answers[place] for place in own] for answers in (said, plain))
            ratios.append(f"{speed(here) / speed(there):.2f}")
        parts.add_row(name, *ratios)
    console = Console(width=120)
    console.print(whole, parts)


def speed(said: Sequence[Said]) -> float:
    """Return tokens per second."""
    return sum([len(one.tokens) for one in said]) / sum([one.seconds for one in said])


def main() -> None:
    parser = argparse.ArgumentParser(description="Free text beside transformers.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--each", type=int, default=2, help="questions of each category")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--widths", type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--cache-tokens", type=int, default=2_048)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    ours = Ours(options)  # first, because it measures free memory
    torch.set_num_threads(options.threads)
    peer = Peer(options)
    asked = list(prompts(options.questions, options.each, peer))
    print_tables(asked, measure(ours.ways() | peer.ways(), asked, options.rounds))


if __name__ == "__main__":
    main()
