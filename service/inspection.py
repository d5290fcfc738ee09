"""Makes tasks for the engine of messages that ask for work on a constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.spec import TokenId
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_constraint
from guided_service.messages import Inspect

if TYPE_CHECKING:
    from guided.engine.constraint_tasks import Task

__all__ = ["task_of"]


def task_of(asked: Inspect) -> Task:
    """Return the task of a message; raises ``GuidedError`` for an invalid constraint."""
    # Imported here, so that a process ties its life to its server's before it loads a compiler.
    from guided.engine.constraint_tasks import Task

    return Task(
        asked.what,
        decode_constraint(pb.Constraint.FromString(asked.constraint)),
        asked.text.encode(),
        tuple(map(TokenId, asked.tokens)),
    )
