"""The fields by which a conversation is continued inside of its last message, as vLLM has them."""

from __future__ import annotations

from guided.errors import RequestError
from guided_service.http.fields import Given

__all__ = ["ContinuingFields"]


class ContinuingFields(Given):
    """How a conversation goes on: by a new turn, or by the rest of its last one."""

    add_generation_prompt: bool | None = None
    """Whether a new turn begins; only the opposite of ``continue_final_message``."""
    continue_final_message: bool = False
    """Continue the last message, which is the assistant's."""

    # Ours
    heal: bool | None = None
    """Let the answer replace the last tokens of the message; ``None``: where one is continued."""

    def check_ending(self) -> None:
        """Raise RequestError for a conversation that neither begins a turn nor continues one."""
        if self.add_generation_prompt is None:
            return
        if self.add_generation_prompt and self.continue_final_message:
            raise RequestError(
                "add_generation_prompt begins a new turn, and continue_final_message none",
                field="add_generation_prompt",
                hint="leave it out",
            )
        if not self.add_generation_prompt and not self.continue_final_message:
            raise RequestError(
                "without a new turn there has to be a message to continue",
                field="add_generation_prompt",
                hint="leave it out, or set continue_final_message",
            )
