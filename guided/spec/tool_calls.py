"""Builds the constraint of an answer that may call tools."""

from __future__ import annotations

from guided.errors import RequestError, naming
from guided.spec import Constraint, JsonOptions, JsonSchema, Lark, Regex, Structure
from guided.spec.call_arguments import CallArguments, no_arguments
from guided.spec.closed_objects import close_objects
from guided.spec.composition import AnyOf, Part, Repeat, Sequence
from guided.spec.exact_json import read_exact, write_exact
from guided.spec.input_text import BareText, EscapedText
from guided.spec.special_token import SpecialToken
from guided.spec.tagged import Calls, FreeText, Tag, Tagged
from guided.spec.tool_format import MARK, ToolFormat, strip_marks
from guided.spec.tool_literals import literals_of
from guided.spec.tool_members import members_of
from guided.spec.tools import INPUT, Tool, ToolUse, input_field, parameters_field

__all__ = ["arguments_constraint", "arguments_of", "with_calls"]


def with_calls(use: ToolUse, content: Constraint, form: ToolFormat) -> Structure:
    """Return the constraint of an answer that may call tools.

    ``content`` constrains an answer without calls; without it, that is any text::

        auto              text with calls in it, or none; with ``content``, either it or calls
        required          calls only
        one by its name   that call only
        none              text without any call; with ``content``, it
    """
    tools = use.callable_tools
    if not tools:
        return _content(content, form)
    if content is not None and not isinstance(content, JsonSchema):
        raise RequestError(
            "the answer beside tools is not JSON, so it cannot be told from calls of them",
            field="constraint",
            hint="leave it or the tools out, or set tool_choice to none",
        )
    if content is not None and form.separator is None and content.options.whitespace != 0:
        raise RequestError(
            "a document with white space cannot be told from a tool call as this model writes it",
            field="json_options.whitespace",
            hint="set it to 0",
        )
    arguments = [(form.header(tool.name), arguments_constraint(tool, form)) for tool in tools]
    is_free = use.choice == "auto" and content is None and form.separator is not None
    if is_free and not form.special_tokens:
        tags = [Tag(header, body, form.end) for header, body in arguments]
        return Tagged(tags, form.trigger, Calls.AUTO, use.parallel)
    call = AnyOf(
        [Sequence([*_parts(header), body, *_parts(form.end)]) for header, body in arguments]
    )
    calls = _one_or_more(call, form.separator if use.parallel and not use.names_one_tool else None)
    if use.choice != "auto":
        return calls
    if is_free:
        # In these formats an answer ends after its calls.
        return Sequence([_content(None, form), Repeat(calls, 0, 1)])
    return AnyOf([_content(content, form), calls])


def arguments_constraint(tool: Tool, form: ToolFormat) -> Structure:
    """Return the constraint of a tool's arguments as the format writes them."""
    if tool.input is not None:
        return _input_constraint(tool.input, input_field(tool.name), form)
    schema = arguments_of(tool)
    arguments: Structure = schema
    with naming((f"the tool {tool.name}",)):
        if form.members is not None:
            arguments = members_of(tool, schema, form.members)
        elif form.quote:
            arguments = literals_of(tool, schema, strip_marks(form.quote), MARK)
    return CallArguments(arguments, parameters_field(tool.name))


def _input_constraint(grammar: Lark | Regex, field: str, form: ToolFormat) -> Structure:
    """Return the constraint of a custom tool's input, as the format writes a text argument."""
    if form.members is not None:
        text = BareText(grammar, field, end=form.members.end)
        return Sequence([form.members.header(INPUT), text])
    if form.quote:
        # The reader recognises special tokens by their marks.
        quote, text = _parts(form.quote), BareText(grammar, field, without=MARK)
        return Sequence([f"{INPUT}:", *quote, text, *quote])
    return Sequence([f'{{"{INPUT}":"', EscapedText(grammar, field), '"}'])


def _one_or_more(call: Structure, separator: str | None) -> Structure:
    """Return the constraint of one call, or of several if the format separates them."""
    if separator is None:
        return call
    return Sequence([call, Repeat(Sequence([*_parts(separator), call]))])


def _content(content: Constraint, form: ToolFormat) -> Structure:
    """Return the constraint of an answer without calls."""
    if content is None:
        content = FreeText(MARK if form.special_tokens else form.trigger)
    before = _parts(form.before_content)
    return Sequence([*before, content]) if before else content


def _parts(text: str) -> list[Part]:
    """Split a text of a format; marked names in it are special tokens."""
    pieces = enumerate(text.split(MARK))
    return [SpecialToken(piece) if index % 2 else piece for index, piece in pieces if piece]


def arguments_of(tool: Tool) -> JsonSchema:
    """Return the constraint of a tool's arguments; raises RequestError for an invalid schema."""
    field = parameters_field(tool.name)
    with naming((f"the tool {tool.name}",)):
        schema = {"type": "object"} | read_exact(tool.schema)
    kinds = schema["type"]
    if isinstance(kinds, list) and "object" in kinds:
        schema["type"] = kinds = "object"  # what else they may be, arguments are not
    with naming((field,), field=field):
        if kinds != "object":
            raise no_arguments(f"they are of type {kinds!r}, no object")
    with naming((f"the tool {tool.name}",)):
        enforced = close_objects(schema) if tool.strict else schema
        # A file or a patch is a long string; the budget of tokens bounds it.
        options = JsonOptions(max_string_length=None, unknown_keywords=tool.unknown_keywords)
        return JsonSchema(write_exact(enforced), options)
