"""What the commands do, once ``cli`` has parsed what was asked: one file a command that is more than one call.

In: typed arguments. Out: text on standard output or in the file that was named; errors as ``UnstallError``.
"""
