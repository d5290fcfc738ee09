"""Context-free grammars → networks of automata that call each other."""

from guided.grammar.network.grammar_to_network import check_has_text, network_from_grammar
from guided.grammar.network.network import CallEdge, HoleText, Network

__all__ = ["CallEdge", "HoleText", "Network", "check_has_text", "network_from_grammar"]
