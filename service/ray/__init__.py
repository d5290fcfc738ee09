"""The service as an application of Ray Serve (docs/ray.md).

::

    caller ──gRPC──▶ Ray's proxy ──▶ Ingress ──▶ Engine, Engine, ...
                     proxied.py      ingress.py   engine.py
                     bytes, path     the servicers, chosen by router.py: who has the
                     and deadline    as in serve  prompt's beginning and the constraint

Only this package imports ray, and no other module imports this package.
"""
