"""Measures the host's work per text and step: `python -m benchmarks.host_work TOKENIZER`.

It runs an engine without a model: tokens are drawn at random from the masks of a step, as a GPU
draws them, or, with ``--on-host``, the engine chooses from random logits. A number of texts decode
at once, by turns without a constraint and with each of some schemas. Prints the microseconds of
process time per text and step, by phase, in the fastest round.

*Masks* are found while a GPU computes; *pack* is everything else the engine does around the model
call. With ``--draft``, texts are searched for drafts, with a cost curve by which hardly any pays
off. Each round draws the same answers, so all but the first are at positions that the constraint
knows; with ``--fresh`` each round draws other answers, and most of its positions are new.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import numpy as np
import torch
from transformers import AutoTokenizer

from guided.constraint import ConstraintCompiler
from guided.decoding.device_draw import DeviceDraw
from guided.decoding.draft_budget import CostCurve
from guided.drafters.lookup import LookupDrafter
from guided.engine import Engine
from guided.engine.compile_queue import StartMatcher
from guided.kv.reservation import SlotCopies
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.mask import tokens_of
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import StepBatch, StepOutput
from guided.spec import Constraint, Forcing, GenerationRequest, JsonSchema, Sampling, TokenId
from guided.stats import Phase

_PHASES: Final = ("draft", "reserve", "pack", "masks", "settle", "rest")
_PROMPT: Final = 512
_ROWS: Final = 61
"""Rows of logits, given in turn."""
_TRIES: Final = 8
_LETTERS: Final = 16
"""More than the average length of a random token."""
_DEAR: Final = CostCurve(((1, 0.01), (512, 1.0)))


@dataclass
class Chance:
    """Chooses tokens at random; has the part of a ``ModelRunner`` that an engine needs."""

    vocabulary: Vocabulary
    on_host: bool
    windows: tuple[None] = (None,)
    seconds: float = 0.0
    """Seconds that it took itself."""
    mask_seconds: float = 0.0
    """Seconds that finding masks took while it waited."""
    mixers: tuple[()] = ()
    _rows: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    _calls: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        rows = _ROWS if self.on_host else 1
        self._rows = torch.randn(rows, len(self.vocabulary))
        self._rows[:, sorted(self.vocabulary.end_ids)] = -100.0

    @property
    def shape(self) -> Chance:
        return self

    def context_window(self, wanted: int) -> int:
        return wanted

    def open_storages(self, num_slots: Sequence[int]) -> None:
        """Do nothing: there is nothing to store."""

    def copy(self, copies: Sequence[SlotCopies]) -> None:
        """Do nothing: there is nothing to copy."""

    def forward(self, batch: StepBatch) -> StepOutput:
        began = time.process_time()
        places = np.array(batch.logits_rows, np.int64)
        drawn: tuple[TokenId | None, ...] = ()
        found = 0.0
        if self.on_host:
            self._calls += 1
            logits = self._rows[(places * 7 + self._calls) % _ROWS]
        else:
            logits = self._rows.expand(len(places), -1)
            assert batch.device_draws is not None
            asked = time.process_time()
            draws = batch.device_draws()
            found = time.process_time() - asked
            drawn = tuple([None if draw is None else self._drawn(draw) for draw in draws])
        nothing = torch.empty(0, 0)
        output = StepOutput(logits, nothing, nothing, drawn)
        self.mask_seconds += found
        self.seconds += time.process_time() - began - found
        return output

    def _drawn(self, draw: DeviceDraw) -> TokenId:
        """Return an allowed token that ends nothing, if any; the same for the same noise."""
        stream, ends = draw.stream, self.vocabulary.end_ids
        for _ in range(_TRIES):
            stream = stream * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
            token = (stream >> 33) % len(self.vocabulary)
            if draw.mask[token >> 5] >> (token & 31) & 1 and token not in ends:
                return TokenId(token)
        tokens = tokens_of(draw.mask).tolist()
        kept = [token for token in tokens if token not in ends] or tokens
        return TokenId(kept[stream % len(kept)])


def schemas(steps: int) -> dict[str, Constraint]:
    """Return constraints whose answers are longer than this many random tokens."""
    long = {"type": "string", "minLength": _LETTERS * steps}
    record = {
        "id": {"type": "integer", "minimum": 0, "maximum": 99999},
        "name": {"type": "string", "maxLength": 40},
        "kind": {"enum": ["person", "place", "thing", "other"]},
        "score": {"type": "number"},
        "open": {"type": "boolean"},
    }
    records = {"type": "array", "minItems": 2 * steps, "items": _closed(record)}
    return {
        "none": None,
        "one string": JsonSchema(json.dumps(_closed({"text": long}))),
        "records": JsonSchema(json.dumps(_closed({"records": records}))),
    }


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def decode(
    chance: Chance,
    start: StartMatcher,
    constraint: Constraint,
    options: argparse.Namespace,
    first_seed: int = 0,
) -> dict[str, float]:
    """Return the microseconds per text and step, by phase."""
    numbers = np.random.default_rng(0)
    prompts = numbers.integers(300, 40_000, (options.texts, _PROMPT)).tolist()
    engine = Engine(
        model_name="chance",
        runner=chance,  # type: ignore[arg-type]
        vocabulary=chance.vocabulary,
        context_window=2**17,
        render=lambda prompt, *_: tuple(prompts[int(str(prompt))]),
        start=start,
        max_batch=options.texts,
        cache_tokens=options.texts * 2 * (_PROMPT + 64 * options.steps),
        step_tokens=2048,
        drafters=[LookupDrafter(chance.vocabulary)] if options.draft else [],
        widest_draft=8 if options.draft else 0,
        costs=_DEAR if options.draft else None,
    )
    for number in range(options.texts):
        request = GenerationRequest(
            prompt=str(number),
            constraint=constraint,
            # By default room for every answer to end, with one byte per token.
            max_tokens=options.max_tokens or 100 * _LETTERS * options.steps,
            forcing=Forcing(options.forcing),
            sampling=Sampling(temperature=options.temperature, seed=first_seed + number),
        )
        engine.submit(str(number), request)
    while engine.stats().usage.sampled_tokens < 4 * options.texts:
        engine.step()
    gc.collect()
    engine._counters.reset(time.process_time)
    chance.seconds = chance.mask_seconds = 0.0
    began = time.process_time()
    for _ in range(options.steps):
        ended = engine.step()
        assert not ended, ended[0]
    seconds, phases = time.process_time() - began, engine.stats().phases
    found = {
        "draft": phases[Phase.DRAFT],
        "reserve": phases[Phase.RESERVE],
        "pack": phases[Phase.FORWARD] - chance.seconds - chance.mask_seconds,
        "masks": chance.mask_seconds,
        "settle": phases[Phase.SETTLE],
    }
    found["rest"] = seconds - chance.seconds - sum(found.values())
    for number in range(options.texts):
        engine.cancel(str(number))
    return {name: 1e6 * each / options.steps / options.texts for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="a folder or hub id")
    parser.add_argument("--texts", type=int, nargs="+", default=[64], help="at once")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-tokens", type=int, help="else more than any answer needs")
    parser.add_argument("--forcing", choices=[*Forcing], default=Forcing.CANONICAL)
    parser.add_argument("--on-host", action="store_true", help="choose from logits")
    parser.add_argument("--draft", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="other answers in each round")
    options = parser.parse_args()
    vocabulary = vocabulary_from_tokenizer(AutoTokenizer.from_pretrained(options.tokenizer))
    chance, start = Chance(vocabulary, options.on_host), ConstraintCompiler(vocabulary).start
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 2**30)  # as in the process of an engine
    print(f"{'texts':>6} {'constraint':>12}", *(f"{name:>8}" for name in (*_PHASES, "all")))
    for texts in options.texts:
        asked = argparse.Namespace(**{**vars(options), "texts": texts})
        given = schemas(options.steps)
        rounds = [
            (name, decode(chance, start, each, asked, texts * number * options.fresh))
            for number, (name, each) in product(range(options.rounds), given.items())
        ]
        for name in given:
            # What is met for the first time is built in the first round.
            seen = [phases for other, phases in rounds if other == name]
            fastest = min(seen, key=lambda phases: sum(phases.values()))
            cells = [fastest[phase] for phase in _PHASES]
            print(f"{texts:>6} {name:>12}", *(f"{cell:>8.2f}" for cell in (*cells, sum(cells))))


if __name__ == "__main__":
    main()
