"""Formulas over assertions about JSON values, and the automata of numbers."""
