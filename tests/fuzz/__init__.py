"""Damaged inputs for every reader: what comes of them is a report or one clear line, and nothing else.

``seeds`` makes small good files, ``mutate`` damages them, ``check`` reads one and holds it against the promises,
``run`` does that with thousands, in processes that may be killed: ``python -m tests.fuzz.run --count 20000 --seed 1``.
"""
