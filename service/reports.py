"""Makes the report on a request's constraint while its answer is generated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from guided.spec import CheckedConstraint, GenerationRequest, SchemaReport
from guided_service.grammar_servicer import Inspector, check_of

__all__ = ["report_beside"]


@asynccontextmanager
async def report_beside(
    inspector: Inspector, request: GenerationRequest, client: str
) -> AsyncIterator[asyncio.Task[SchemaReport] | None]:
    """Yield the task of the report that a request wants; cancels it if unfinished at the end."""
    if not request.report:
        yield None
        return
    task = asyncio.create_task(_report(inspector, request, client))
    try:
        yield task
    finally:
        task.cancel()
        # If the answer failed, its error is reported, not that of the report.
        await asyncio.gather(task, return_exceptions=True)


async def _report(inspector: Inspector, request: GenerationRequest, client: str) -> SchemaReport:
    assert request.constraint is not None, "a report without a constraint"
    # Without the request's deadline: an answer that was closed to meet it must not be lost for
    # this.
    found = await inspector.inspect(check_of(request.constraint, request.model, client))
    assert isinstance(found, CheckedConstraint), f"checking gave {found!r}"
    return found.report
