"""An engine process without a model: it answers with its prompt, or as the prompt commands.

For tests of the messages and the supervision around an engine; the tests with a real engine check
the answers themselves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Any

from guided.errors import (
    GuidedError,
    IncompleteAnswerError,
    InvalidConstraintError,
    ModelError,
    RequestError,
)
from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    OnIncomplete,
    TokenId,
    TokenPrompt,
    Usage,
)
from guided.spec.delta import Delta
from guided.spec.prompt_bound import PromptBound
from guided.spec.tool_format import HERMES, ToolFormat
from guided.stats import CacheStats, EngineStats, Histogram, Phase
from guided_service.engine_process import main
from guided_service.messages import ModelChoice

if TYPE_CHECKING:
    from guided.decoding.trace import Trace
    from guided.engine.constraint_tasks import ConstraintTasks
    from guided.masks.vocabulary import Vocabulary


@dataclass(frozen=True)
class EchoFinished:
    request_id: str
    outcome: GenerationResult | GuidedError


@dataclass(frozen=True)
class EchoPrompt:
    """A prompt whose tokens are its bytes."""

    tokens: tuple[TokenId, ...]
    received: float


@dataclass
class EchoEngine:
    """Takes one step of a millisecond per token; ``wait`` lasts until the request ends.

    Streamed text grows by a character per token.
    """

    model_name: str = "echo"
    context_window: int = 1000
    vocabulary_size: int = 256
    drafters: tuple[str, ...] = ()
    instruction_set: str = "AVX2"
    tool_format: ToolFormat = HERMES
    adapters: tuple[str, ...] = ()
    thinks: bool = False
    prompt_bound: PromptBound | None = None
    refused: int = 0
    running: dict[str, tuple[GenerationRequest, int]] = field(default_factory=dict)
    cancelled: int = 0
    answered: int = 0
    made: float = field(default_factory=time.monotonic)
    streamed: set[str] = field(default_factory=set)
    deltas: list[Delta] = field(default_factory=list)

    @cached_property
    def constraint_tasks(self) -> ConstraintTasks:
        # Loaded here, because few tests need a compiler and loading it takes time.
        from guided.constraint.compiler import ConstraintCompiler
        from guided.engine.constraint_tasks import ConstraintTasks

        return ConstraintTasks(self.vocabulary, ConstraintCompiler(self.vocabulary).start)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from guided.masks.vocabulary import Vocabulary

        tokens = (*(bytes((byte,)) for byte in range(256)), None)
        return Vocabulary(tokens, frozenset({TokenId(256)}), lambda text: [*text.encode()])

    @property
    def has_work(self) -> bool:
        return bool(self.running)

    def prepare(self, request: GenerationRequest, *, received: float) -> EchoPrompt:
        if isinstance(request.prompt, TokenPrompt):
            return EchoPrompt(request.prompt.read_by(256), received)
        return EchoPrompt(tuple(map(TokenId, str(request.prompt).encode())), received)

    def submit(
        self,
        request_id: str,
        request: GenerationRequest,
        *,
        received: float,
        stream: bool,
        trace: Trace | None = None,
        prompt: EchoPrompt | None = None,
        client: str = "",
    ) -> None:
        assert trace is None, "there is nothing to watch"
        assert 0 <= time.monotonic() - received < 60
        assert prompt is None or prompt == EchoEngine.prepare(self, request, received=received)
        if isinstance(request.prompt, TokenPrompt):
            request.prompt.read_by(256)
        match request.prompt:
            case "refuse":
                raise InvalidConstraintError(
                    "the type is odd", pointer="/type", position=3, hint="even it out"
                )
            case "bug in submit":
                raise KeyError("secret")
            case "long refusal":
                raise InvalidConstraintError(
                    "語" * 5000, pointer="/é" * 5000, position=3, hint="💡" * 5000
                )
        if request.prompt == "client":
            request = replace(request, prompt=f"asked by {client}")
        self.running[request_id] = (request, 0)
        if stream:
            self.streamed.add(request_id)

    def count_refused(self) -> None:
        self.refused += 1

    def cancel(self, request_id: str) -> None:
        if self.running.pop(request_id, None) is not None:
            self.cancelled += 1

    def step(self) -> Sequence[EchoFinished]:
        time.sleep(0.001)
        finished = []
        for request_id, (request, tokens) in list(self.running.items()):
            if request.prompt == "bug in step":
                raise RuntimeError("a step that went wrong")
            if request.prompt == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if request.prompt == "fail later" and tokens == 3:
                failure = InvalidConstraintError("the rest is odd", pointer="/rest")
                del self.running[request_id]
                finished.append(EchoFinished(request_id, failure))
                continue
            if request.on_incomplete is OnIncomplete.ERROR and tokens == 3:
                del self.running[request_id]
                finished.append(EchoFinished(request_id, _cut_short(request)))
                continue
            if request_id in self.streamed:
                self.deltas += self._grown(request_id, request, tokens)
            if request.prompt == "wait" or tokens + 1 < request.most_tokens:
                self.running[request_id] = (request, tokens + 1)
            else:
                del self.running[request_id]
                self.answered += 1
                finished.append(EchoFinished(request_id, self._result(request)))
        return finished

    def stats(self) -> EngineStats:
        no_times = Histogram((1.0,), (0, 0))
        return EngineStats(
            seconds=time.monotonic() - self.made,
            running=len(self.running),
            waiting=0,
            usage=Usage(),
            model_calls=0,
            cache=CacheStats(block_size=1, free=0, held=0, cached=0),
            phases=dict.fromkeys(Phase, 0.0),
            compiling=no_times,
            queueing=no_times,
            first_token=no_times,
            inter_token=no_times,
            answering=no_times,
            answered={FinishReason.STOP: self.answered},
            cancelled=self.cancelled,
        )

    def _grown(self, request_id: str, request: GenerationRequest, tokens: int) -> list[Delta]:
        is_last = tokens + 1 == request.most_tokens
        deltas = []
        for index, text in enumerate(_echoes(request)):
            grown = text[tokens:] if is_last else text[tokens : tokens + 1]
            ended = _candidate(index, text) if is_last and request.has_candidates else None
            if grown or ended is not None:
                deltas.append(Delta(request_id, grown, index=index, ended=ended))
        return deltas

    def take_deltas(self) -> Sequence[Delta]:
        taken, self.deltas = self.deltas, []
        return taken

    def _result(self, request: GenerationRequest) -> GenerationResult:
        text = f"{self.cancelled} cancelled" if request.prompt == "count" else _echo(request)
        return GenerationResult(
            text=text,
            tokens=tuple(TokenId(byte) for byte in text.encode()),
            finish_reason=FinishReason.STOP,
            usage=Usage(1, 2, 3, 4),
            seconds=0.25,
            verification=request.verification,
            candidates=tuple(starmap(_candidate, enumerate(_echoes(request))))
            if request.has_candidates
            else (),
        )


def _arenas_of_threads() -> int | None:
    """The number of arenas after some threads have allocated memory at once; ``None`` where the
    allocator does not report it."""
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "malloc_info"):
        return None
    count, nbytes = 4, 4096  # larger than Python's own allocator handles
    together = threading.Barrier(count)

    def allot() -> None:
        kept = bytearray(nbytes)
        together.wait()
        del kept

    threads = [threading.Thread(target=allot) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _told(library).count("<heap nr=")


def _told(library: Any) -> str:
    library.fdopen.restype = ctypes.c_void_p
    reading, writing = os.pipe()
    file = ctypes.c_void_p(library.fdopen(writing, b"w"))
    library.malloc_info(0, file)
    library.fclose(file)
    with os.fdopen(reading) as told:
        return told.read()


def _echo(request: GenerationRequest) -> str:
    if request.prompt == "adapter":
        return f"by {request.adapter or 'the model'}"
    if request.prompt == "constraint":
        return "none" if request.constraint is None else request.constraint.digest()
    if request.prompt == "arenas":
        return str(_arenas_of_threads())
    if isinstance(request.prompt, str) and request.prompt.startswith("who"):
        return str(os.getpid())
    if isinstance(request.prompt, str):
        return request.prompt
    if isinstance(request.prompt, TokenPrompt):
        return bytes(request.prompt.tokens).decode()
    return request.prompt[-1].content


def _echoes(request: GenerationRequest) -> list[str]:
    """Return the texts of all answers; several begin with their numbers."""
    text = _echo(request)
    return [f"{index}{text}" for index in range(request.n)] if request.has_candidates else [text]


def _candidate(index: int, text: str) -> CandidateResult:
    tokens = tuple(TokenId(byte) for byte in text.encode())
    return CandidateResult(
        *(index, text, tokens, FinishReason.STOP), 0.0, usage=Usage(sampled_tokens=len(tokens))
    )


def _cut_short(request: GenerationRequest) -> IncompleteAnswerError:
    return IncompleteAnswerError(
        "the answer was cut short",
        text=_echo(request),
        finish_reason=FinishReason.LENGTH_CLOSED,
        usage=Usage(prompt_tokens=5, sampled_tokens=3),
        hint="allow more tokens",
    )


def load(choice: ModelChoice, share: Callable[[], None] | None) -> EchoEngine:
    if choice.model == "unreadable":
        raise ModelError("the model 'unreadable' cannot be read", hint="choose another")
    if choice.dtype == "float64":
        raise RequestError("dtype 'float64' is none of 'float32'", field="dtype")
    if choice.model == "broken":
        raise RuntimeError("a loader that went wrong")
    if choice.model == "slow":
        time.sleep(60)
    if share is not None:
        share()
    if choice.model == "bounded":
        return EchoEngine(prompt_bound=PromptBound(context_window=1000, bytes_per_token=8))
    return EchoEngine(adapters=tuple(choice.adapters))


if __name__ == "__main__":
    sys.exit(main(load))
