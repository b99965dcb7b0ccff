"""What happens in the program before its first line.

Comes in: the environment. Goes out: ``--auto`` ready for torch, the built-in collector recording, plugins called.
Called by ``inject/sitecustomize.py`` in every Python process that inherits the environment, so it must cost little in
the many that never import torch.
"""

from __future__ import annotations

from importlib import import_module

from unstall.instrument.importhook import guarded
from unstall.instrument.options import Options

_started = False


def start() -> None:
    """Start what the environment asks for; once a process, whoever calls."""
    global _started  # noqa: PLW0603 - one a process
    if _started:
        return
    _started = True
    guarded(_start, Options.from_environment())


def _start(options: Options) -> None:
    if options.record:
        from unstall.instrument import recorder

        recorder.start(options)
    if options.parts:
        from unstall.instrument import phases

        phases.start(options)
    for plugin in options.plugins:
        guarded(_call, plugin, options)


def _call(plugin: str, options: Options) -> None:
    module, _, function = plugin.partition(":")
    getattr(import_module(module), function or "start")(options)
