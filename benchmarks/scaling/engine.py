"""An engine process that sleeps for as long as a step takes; ``--model`` gives its ``Costs``.

So several of them can share a machine with few cores, which real engines cannot, and everything
except their computing is real: door, router, messages, streams.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from benchmarks.scaling.work import Costs, Job, Work
from guided.spec import GenerationRequest, GenerationResult
from guided.spec.constraints import Regex
from guided.spec.delta import Delta
from guided.stats import EngineStats, Histogram
from guided_service.engine_process import main
from guided_service.messages import ModelChoice
from tests.service.echo_engine import EchoEngine, EchoFinished


@dataclass
class SleepingEngine(EchoEngine):
    """Answers with the end of the prompt; a stream has one part at the first token."""

    work: Work = field(default_factory=lambda: Work(Costs(0.0)))
    asked: dict[str, GenerationRequest] = field(default_factory=dict)

    @property
    def has_work(self) -> bool:
        return bool(self.work)

    def submit(self, request_id: str, request: GenerationRequest, **told: object) -> None:
        assert isinstance(request.prompt, str), "only plain prompts are sent"
        constraint = request.constraint
        pattern = constraint.pattern if isinstance(constraint, Regex) else ""
        self.asked[request_id] = request
        self.work.submit(Job(request_id, request.prompt, pattern, request.most_tokens))
        if told["stream"]:
            self.streamed.add(request_id)

    def cancel(self, request_id: str) -> None:
        self.cancelled += self.work.cancel(request_id)

    def step(self) -> Sequence[EchoFinished]:
        done = self.work.step()
        time.sleep(done.seconds)
        for name in done.first:
            if name in self.streamed:
                self.deltas.append(Delta(name, self._text(name)))
        self.answered += len(done.finished)
        return [EchoFinished(name, self._answer(name)) for name in done.finished]

    def stats(self) -> EngineStats:
        usage = replace(
            (told := super().stats()).usage,
            prompt_tokens=self.work.prompt_tokens,
            reused_tokens=self.work.reused_tokens,
        )
        # Constraints that were already kept, and those that had to be compiled.
        known = self.work.asked - self.work.compiled
        return replace(told, usage=usage, compiling=Histogram((0.0,), (known, self.work.compiled)))

    def _text(self, name: str) -> str:
        prompt = self.asked[name].prompt
        assert isinstance(prompt, str)
        return prompt[-32:]

    def _answer(self, name: str) -> GenerationResult:
        text = self._text(name)
        request = self.asked.pop(name)
        self.streamed.discard(name)
        return replace(self._result(request), text=text)


def load(choice: ModelChoice, share: Callable[[], None] | None) -> SleepingEngine:
    if share is not None:
        share()
    costs = msgspec.json.decode(choice.model or "", type=Costs)
    return SleepingEngine(work=Work(costs))


if __name__ == "__main__":
    sys.exit(main(load))
