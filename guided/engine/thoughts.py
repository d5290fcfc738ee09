"""The thoughts before one answer: which of its tokens they are, and their text."""

from __future__ import annotations

from collections.abc import Sequence

from guided.engine.text_stream import TextStream
from guided.machine.special_bytes import SPECIAL_MARK
from guided.masks.matcher import Matcher
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["ThoughtsReader"]


class ThoughtsReader:
    """Reads the tokens of an answer until its thoughts have ended.

    ::

        prompt | a thought ... end | answer
               └──── length ───────┘
    """

    def __init__(
        self,
        matcher: Matcher,
        vocabulary: Vocabulary,
        start: int,
        end_text: bytes,
        *,
        is_streamed: bool,
    ) -> None:
        """``matcher`` is that of the thoughts alone, complete once they have ended.

        ``start`` is the index of their first token in those of prompt and answer; ``end_text`` are
        the bytes of what ends the thoughts, where special tokens have none.
        """
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._start = start
        self._end_text = end_text
        self.length = 0
        """Tokens read so far: those of all thoughts and their end, once that has come."""
        self.is_over = False
        self._stream = (
            TextStream(
                vocabulary.token_bytes,
                start=start,
                # Special tokens may follow the whole of it. They have no bytes, so a byte that no
                # text has stands for them: the end is never let go before it is complete.
                held_back=[end_text + bytes((SPECIAL_MARK,))],
                errors="strict",
            )
            if is_streamed
            else None
        )

    def read(self, token: TokenId) -> None:
        """Read the next token of the answer, which still belongs to the thoughts."""
        self._matcher = self._matcher.advance(token)
        self.length += 1
        self.is_over = self._matcher.is_complete

    def text(self, answer: Sequence[TokenId]) -> str:
        """Return the thoughts in the tokens of an answer, without their end."""
        whole = self._vocabulary.decode(answer[: self.length])
        return whole.removesuffix(self._end_text if self.is_over else b"").decode(errors="replace")

    def take_new_text(self, tokens: Sequence[TokenId]) -> str:
        """Return the text of thoughts since the last call; empty if they are not streamed.

        ``tokens`` are those of prompt and answer.
        """
        stream = self._stream
        if stream is None:
            return ""
        if not self.is_over:
            return stream.grow(tokens)
        self._stream = None
        thoughts = tokens[: self._start + self.length]
        whole = self._vocabulary.decode(thoughts[self._start :])
        return stream.end(thoughts, len(whole) - len(self._end_text))
