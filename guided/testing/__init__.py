"""For tests of code that calls guided: a real server without a model.

>>> from guided import testing
>>> with testing.Server('{"name": "Ada"}') as server, guided.Client(server.address) as client:
...     assert client.generate("Invent a person.", Person).value.name == "Ada"

It checks requests as any server does, and compiles their constraints. Answers are those that the
test passes, each checked against its constraint; without one, the shortest that the constraint
allows, or with a temperature a random one.
"""

from guided.extras import needing

with needing("guided.testing", "server"):
    from guided.testing.server import Server

__all__ = ["Server"]
