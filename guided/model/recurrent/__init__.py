"""Layers that keep a state from token to token, in packed calls of several sequences.

::

    calling_forms  how modules of transformers take and return a state
    mixers         which modules keep one, and how their calls are answered
    states         what all of them keep of a text
    stretches      a batch, cut where a state is needed or comes from elsewhere
    step           one model call: each mixer, stretch by stretch
    planned        the memory of states, before the weights are loaded

See docs/recurrent.md.
"""

from __future__ import annotations

from guided.model.recurrent.mixers import Mix, Mixer, take_mixers
from guided.model.recurrent.planned import StateSize, plan_states
from guided.model.recurrent.states import RecurrentState
from guided.model.recurrent.step import RecurrentStep, mixing, running_mix, try_continuing

__all__ = [
    "Mix",
    "Mixer",
    "RecurrentState",
    "RecurrentStep",
    "StateSize",
    "mixing",
    "plan_states",
    "running_mix",
    "take_mixers",
    "try_continuing",
]
