"""The parts of :mod:`unstall.load.stats_csv`, in the order of the text's way.

``text`` (bytes → lines) → ``scan`` (lines → the tables in them, through ``csv``, ``console`` or ``json``, which know
``columns`` and ``names``) → ``frame`` (cells → typed columns in ns) → ``fold`` and ``report`` (tables → a report).
"""
