"""Nsight Systems as installed here: found, judged, and used to turn its own files into SQLite.

    ========= =================================================================================
    ask       a short question to a tool: nothing of it stays
    discover  every ``nsys`` and ``ncu`` of this machine, the best first
    libraries which shared libraries a binary lacks, and the command that installs them here
    convert   ``.qdstrm`` → ``.nsys-rep`` → ``.sqlite``, past an ``nsys`` that cannot do it itself
    ========= =================================================================================

Comes in: a file system, an environment, files of nsys. Goes out: :class:`~unstall.nsys.discover.Nsys`, converted files.
Both who collects and who loads need it; it knows neither. Standard library only.
"""
