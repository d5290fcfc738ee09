"""Context-free grammars written in Lark's format, and whether its parser can read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from guided.grammar.context_free import Alternation, Body, Call, Concatenation, Repetition, Terminal

__all__ = ["has_cycle", "written_lark"]


def written_lark(
    rules: Mapping[str, Body], terminal: Callable[[Terminal], str], ignored: str = ""
) -> str:
    """The grammar's text; ``terminal`` writes a terminal, ``ignored`` is a pattern."""

    def written(body: Body) -> str:
        match body:
            case Terminal():
                return terminal(body)
            case Call(rule):
                return rule
            case Concatenation(parts):
                return f"({' '.join(map(written, parts))})"
            case Alternation(options):
                return f"({' | '.join(map(written, options))})"
            case Repetition(item, low, None):
                return f"({' '.join([written(item)] * low)} ({written(item)})*)"
            case Repetition(item, low, high):
                return f"({written(item)}) ~ {low}..{high}"
        raise AssertionError(f"a random grammar has no {body}")

    lines = [f"{name}: {written(body)}" for name, body in rules.items()]
    if ignored:
        lines.append(f"%ignore /{ignored}/")
    return "\n".join([f"start: {next(iter(rules))}", *lines])


def has_cycle(rules: Mapping[str, Body]) -> bool:
    """Whether a text may be read in endlessly many ways: Lark's parser then does not end."""
    nullable: set[str] = set()
    while more := {n for n, b in rules.items() if n not in nullable and _is_empty(b, nullable)}:
        nullable |= more
    alone = {name: _alone(body, nullable) for name, body in rules.items()}
    for _ in rules:
        alone = {
            name: callees.union(*(alone.get(callee, {callee}) for callee in callees))
            for name, callees in alone.items()
        }
    return any(name in callees or "*" in callees for name, callees in alone.items())


def _is_empty(body: Body, nullable: set[str]) -> bool:
    match body:
        case Call(rule):
            return rule in nullable
        case Concatenation(parts):
            return all(_is_empty(part, nullable) for part in parts)
        case Alternation(options):
            return any(_is_empty(option, nullable) for option in options)
        case Repetition(item, low):
            return low == 0 or _is_empty(item, nullable)
    return False


def _alone(body: Body, nullable: set[str]) -> set[str]:
    """The rules that may be the whole of a body; ``*`` for an empty text repeated."""
    match body:
        case Call(rule):
            return {rule}
        case Concatenation(parts):
            found = set[str]()
            for at, part in enumerate(parts):
                if all(_is_empty(each, nullable) for each in parts[:at] + parts[at + 1 :]):
                    found |= _alone(part, nullable)
            return found
        case Alternation(options):
            return set().union(*(_alone(option, nullable) for option in options))
        case Repetition(item):
            return _alone(item, nullable) | ({"*"} if _is_empty(item, nullable) else set())
    return set()
