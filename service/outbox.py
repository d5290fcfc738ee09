"""The text of one stream on its way from the engine to its reader."""

from __future__ import annotations

import asyncio

__all__ = ["Outbox"]


class Outbox:
    """Keeps what was not taken yet as one piece; it holds no more than the text of one answer.

    Whoever reads slowly gets longer pieces, and the engine waits for nobody.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_closed = False
        self._has_news = asyncio.Event()

    def put(self, text: str) -> None:
        """Add text."""
        self._pieces.append(text)
        self._has_news.set()

    def close(self) -> None:
        """End the text: nobody waits for more."""
        self._is_closed = True
        self._has_news.set()

    async def take(self) -> str:
        """All that is there, waiting for some; empty once it is closed and nothing is left."""
        await self._has_news.wait()
        text = "".join(self._pieces)
        self._pieces.clear()
        if not self._is_closed:
            self._has_news.clear()
        return text
