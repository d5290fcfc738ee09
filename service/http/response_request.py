"""Requests of ``POST /v1/responses``: texts and functions, nothing that is kept between calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import MOST_MESSAGES, MOST_TOP_LOGPROBS, GenerationRequest
from guided.spec.composition import JsonObject
from guided.spec.tools import MOST_TOOLS
from guided_service.call_reader import reader_of
from guided_service.config import ServerConfig
from guided_service.http.asked import Asked
from guided_service.http.chat_answer import ChatStyle
from guided_service.http.chat_request import DEFAULT_BUDGET
from guided_service.http.constraints import Wanted, schema_of
from guided_service.http.fields import Body, GenerationFields, Given, given
from guided_service.http.messages import (
    AssistantTurn,
    Called,
    CallMade,
    SystemTurn,
    TextPart,
    ToolTurn,
    Turn,
    UserTurn,
    conversation,
)
from guided_service.http.response_answer import ResponseForm
from guided_service.http.tools import (
    Function,
    Named,
    NamedChoice,
    Tool,
    ToolChoice,
    tool_use,
)

__all__ = ["ResponseRequest", "read_response"]


class Text(Given):
    """A text in a message; of what the model said, with what it was given back beside it."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    """Not looked at: they are of an answer that was given."""


Texts: TypeAlias = str | list[Text]


class MessageItem(Given):
    """What somebody said."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Texts
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class CallItem(Given):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class OutputItem(Given):
    """What a call gave back."""

    type: Literal["function_call_output"]
    call_id: str
    output: Texts
    id: str | None = None
    status: str | None = None


Item: TypeAlias = MessageItem | CallItem | OutputItem


class TextFormat(Given):
    """Any text."""

    type: Literal["text"]


class ObjectFormat(Given):
    """Any JSON object."""

    type: Literal["json_object"]


class SchemaFormat(Given):
    """A document of a schema."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(max_length=64)]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


Format: TypeAlias = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]


class TextOptions(Given):
    """What the text of an answer is."""

    format: Format | None = None
    verbosity: Literal["medium"] | None = None
    """As OpenAI has it where it is left out."""


class FunctionTool(Function):
    """A function that the model may call."""

    type: Literal["function"]


class ChosenFunction(Given):
    """The one function that has to be called."""

    type: Literal["function"]
    name: str


class ResponseRequest(GenerationFields):
    """The body of a call; see docs/openai.md."""

    hints: ClassVar[Mapping[str, str]] = {
        "conversation": "send what was said as input",
        "max_tokens": "use max_output_tokens",
        "messages": "use input, or send them to /v1/chat/completions",
        "previous_response_id": "send what was said as input; nothing is kept between calls",
        "reasoning": "leave it out; /v1/chat/completions lets the model think (reasoning_effort)",
        "response_format": "use text.format",
    }

    n: Literal[1] = 1
    input: str | Annotated[list[Item], Field(min_length=1, max_length=MOST_MESSAGES)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    text: TextOptions | None = None
    tools: list[FunctionTool] = Field(default_factory=list, max_length=MOST_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | ChosenFunction | None = None
    parallel_tool_calls: bool = True
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_TOP_LOGPROBS)] | None = None
    include: list[Literal["message.output_text.logprobs"]] | None = None
    truncation: Literal["disabled"] | None = None
    """A prompt that is too long is an error."""
    background: Literal[False] | None = None

    def wanted(self) -> Wanted | None:
        """The constraint of its text, with the field that it came from."""
        match None if self.text is None else self.text.format:
            case ObjectFormat():
                return Wanted(JsonObject(), "text.format")
            case SchemaFormat() as named:
                structure = schema_of(named.schema_, strict=named.strict)
                return Wanted(structure, "text.format.schema")
        return None

    def choice(self) -> ToolChoice:
        """Which tools have to be called."""
        match self.tool_choice:
            case ChosenFunction(name=name):
                return NamedChoice(type="function", function=Named(name=name))
            case None:
                return "auto"
            case str() as word:
                return word

    def turns(self) -> list[Turn]:
        """What was said and called, in order."""
        first = [SystemTurn(role="system", content=self.instructions)] if self.instructions else []
        if isinstance(self.input, str):
            return [*first, UserTurn(role="user", content=self.input)]
        turns: list[Turn] = [*first]
        for item in self.input:
            _add(item, turns)
        return turns


def read_response(body: Body, _: ServerConfig) -> Asked:
    """What a call asks for; raises RequestError."""
    asked = given(ResponseRequest, body)
    wanted, choice = asked.wanted(), asked.choice()
    structure = None if wanted is None else wanted.structure
    field = None if wanted is None else wanted.field
    listed = [Tool(type="function", function=one) for one in asked.tools]
    tools = tool_use(listed, choice, wanted, is_parallel=asked.parallel_tool_calls)
    if tools is not None:
        field = "tools" if wanted is None else f"tools, or {field}"
    elif asked.tool_choice not in (None, "none", "auto"):
        raise RequestError("tool_choice needs tools", field="tool_choice")
    tells_logprobs = asked.top_logprobs is not None or bool(asked.include)
    request = GenerationRequest(
        prompt=conversation(asked.turns()),
        constraint=structure,
        tools=tools,
        max_tokens=asked.max_output_tokens or DEFAULT_BUDGET,
        top_logprobs=(asked.top_logprobs or 0) if tells_logprobs else None,
        **asked.common(),
    )
    style = ChatStyle(
        reader=partial(reader_of, request),
        is_named=isinstance(choice, NamedChoice),
        is_structured=wanted is not None,
        tells_usage=True,
        tells_logprobs=tells_logprobs,
    )
    return Asked.of(
        asked.model,
        request,
        partial(ResponseForm, style, _repeated(asked)),
        is_streamed=asked.stream,
        constraint_field=field,
    )


def _add(item: Item, turns: list[Turn]) -> None:
    """Add what an item says to the turns; calls in a row are of one turn."""
    match item:
        case MessageItem(role="user"):
            turns.append(UserTurn(role="user", content=_texts(item.content)))
        case MessageItem(role="assistant"):
            turns.append(AssistantTurn(role="assistant", content=_texts(item.content)))
        case MessageItem():
            turns.append(SystemTurn(role="system", content=_texts(item.content)))
        case OutputItem():
            turns.append(
                ToolTurn(role="tool", tool_call_id=item.call_id, content=_texts(item.output))
            )
        case CallItem():
            call = CallMade(
                id=item.call_id, function=Called(name=item.name, arguments=item.arguments)
            )
            last = turns[-1] if turns else None
            said = last if isinstance(last, AssistantTurn) else None
            if said is not None:
                turns.pop()
            content = None if said is None else said.content
            calls = [*((said.tool_calls or []) if said is not None else []), call]
            turns.append(AssistantTurn(role="assistant", content=content, tool_calls=calls))


def _texts(content: Texts) -> str | list[TextPart]:
    if isinstance(content, str):
        return content
    return [TextPart(type="text", text=part.text) for part in content]


def _repeated(asked: ResponseRequest) -> dict[str, Any]:
    """What a response tells again of its request."""
    said = asked.model_dump(
        include={"instructions", "max_output_tokens", "temperature", "top_p", "metadata", "user"},
    )
    tools = [one.model_dump() | {"strict": one.strict} for one in asked.tools]
    choice = asked.tool_choice
    form = None if asked.text is None else asked.text.format
    return {
        **said,
        "background": False,
        "metadata": asked.metadata or {},
        "parallel_tool_calls": asked.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "text": {"format": {"type": "text"} if form is None else form.model_dump(by_alias=True)},
        "tool_choice": choice.model_dump()
        if isinstance(choice, ChosenFunction)
        else choice or "auto",
        "tools": tools,
        "top_logprobs": asked.top_logprobs or 0,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "truncation": "disabled",
    }
