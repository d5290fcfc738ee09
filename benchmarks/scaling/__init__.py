"""Measures scaling out: on a Ray cluster on this machine, and in a simulation of many engines.

::

    load.py        the requests and when they arrive
    work.py        what an engine does with them, step by step, and how long each step takes
    simulation.py  many engines in simulated time      ─┐ docs/scaling.md compares
    ray_load.py    many engines as Ray's replicas, live ─┘ the two
    engine.py      the engine process of a replica: it sleeps for as long as a step takes
"""
