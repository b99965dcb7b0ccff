"""Commands killed at random points: what is left is the old result, the whole new one, or none, and no process.

``trial`` is one kill and what must hold after it, ``run`` does many: ``python -m tests.kill.run --count 200 --seed 1``.
"""
