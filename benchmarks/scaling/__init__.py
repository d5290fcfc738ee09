"""Measures scaling out: on a Ray cluster on this machine, and in a simulation of many engines.

::

    load.py        what comes in, and when
    work.py        what an engine does with it, step by step, and how long each step takes
    simulation.py  many of them in simulated time         ─┐ docs/scaling.md has both
    ray_load.py    many of them as Ray's replicas, in real ─┘ beside each other
    engine.py      the engine process of those: it sleeps for as long as a step takes
"""
