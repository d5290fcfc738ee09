"""Tokenises long prompts in a thread of its own while the engine keeps stepping.

::

    Submit, Tokenize ──▶ waiting, in order ──▶ decoded, rendered, tokenised ──▶ done ──▶ engine
                            │ Cancel                │ Cancel
                            ▼                       ▼
                          dropped                 its outcome is dropped
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from guided.engine.request_isolation import is_request_error
from guided.errors import GuidedError, incident_of
from guided.spec import GenerationRequest
from guided_service.memory import give_back_memory
from guided_service.messages import HasRequest

__all__ = ["Prepared", "PromptThread"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its prepared prompt, or with the error of preparing it."""

    asked: HasRequest
    outcome: tuple[GenerationRequest, Any] | GuidedError


class PromptThread:
    """Prepares prompts one after another, until it is closed."""

    def __init__(self, prepare: Callable[..., Any]) -> None:
        """``prepare`` is the engine's method; it raises what is wrong with a request."""
        self._prepare = prepare
        self._news = threading.Condition()
        self._wanted: set[str] = set()
        """Ids of requests that were added and neither dropped nor taken."""
        self._waiting: deque[HasRequest] = deque()
        self._done: list[Prepared] = []
        self._is_closing = False
        self.bell, self._rope = os.pipe()
        os.set_blocking(self.bell, False)
        # A daemon: its current work may outlast the time a process has to end.
        self._thread = threading.Thread(target=self._run, name="prompts", daemon=True)
        self._thread.start()

    def add(self, asked: HasRequest) -> None:
        """Queue a request to be prepared."""
        with self._news:
            self._wanted.add(asked.request_id)
            self._waiting.append(asked)
            self._news.notify()

    def drop(self, request_id: str) -> bool:
        """Drop a request, whether begun or not; returns whether it was known."""
        with self._news:
            if request_id not in self._wanted:
                return False
            self._wanted.remove(request_id)
            # Free what it holds now, however long the requests before it take.
            self._waiting = deque(each for each in self._waiting if each.request_id != request_id)
            return True

    def take(self) -> list[Prepared]:
        """Return what is ready; ``bell`` is readable whenever something is."""
        with self._news:
            done, self._done = self._done, []
            if done:
                os.read(self.bell, len(done))
            wanted = [each for each in done if each.asked.request_id in self._wanted]
            self._wanted.difference_update(each.asked.request_id for each in wanted)
            return wanted

    def close(self) -> None:
        """End the thread after its current work."""
        with self._news:
            self._is_closing = True
            self._waiting.clear()
            self._news.notify()
            os.close(self._rope)
            os.close(self.bell)

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            prepared = Prepared(asked, self._outcome(asked))
            del asked
            with self._news:
                if not self._is_closing:
                    self._done.append(prepared)
                    os.write(self._rope, b"\0")
                is_last = not self._waiting
            del prepared
            if is_last:
                give_back_memory()

    def _next(self) -> HasRequest | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closing)
            return None if self._is_closing else self._waiting.popleft()

    def _outcome(self, asked: HasRequest) -> tuple[GenerationRequest, Any] | GuidedError:
        try:
            request = asked.request()
            return request, self._prepare(request, received=asked.received)
        except GuidedError as error:
            return error
        # A panic of a compiled tokenizer is no Exception, and a fault of this request like others.
        except BaseException as error:
            if not is_request_error(error):
                raise
            return incident_of(error)
