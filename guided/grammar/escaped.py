"""Grammars of texts as JSON writes them in strings."""

from __future__ import annotations

from guided.grammar import context_free as cf
from guided.regular.json_escapes import escape_look, escape_texts

__all__ = ["escape_grammar"]


def escape_grammar(grammar: cf.ContextFreeGrammar) -> cf.ContextFreeGrammar:
    """Return the grammar of the same texts as they are written between the quotes of JSON.

    The grammar has neither holes nor special tokens.
    """
    rules = {name: _escape(body) for name, body in grammar.rules.items()}
    ignored = tuple([_escape_terminal(each) for each in grammar.ignored])
    return cf.ContextFreeGrammar(rules, grammar.start, ignored)


def _escape(body: cf.Body) -> cf.Body:
    if isinstance(body, cf.Terminal):
        return _escape_terminal(body)
    return cf.map_inner(body, _escape)


def _escape_terminal(terminal: cf.Terminal) -> cf.Terminal:
    return cf.Terminal(
        escape_texts(terminal.regular),
        tuple(map(escape_look, terminal.before)),
        tuple(map(escape_look, terminal.after)),
    )
