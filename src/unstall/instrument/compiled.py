"""Keep torch.compile from compiling us.

Comes in: the module ``torch._dynamo.decorators``, once it is loaded. Goes out: every function of this package marked
so that Dynamo steps over its frame and still compiles the frames inside: the script's graphs, their number and their
breaks stay what they are without us.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any


def hide(decorators: Any) -> None:
    """Mark all code of ``unstall.instrument`` that is loaded by now."""
    skip_code: Callable[[CodeType], object] = decorators.skip_code
    for name, module in list(sys.modules.items()):
        if name.startswith("unstall.instrument"):
            for value in list(vars(module).values()):
                for code in _codes(value, name):
                    skip_code(code)


def _codes(value: Any, module: str) -> Iterator[CodeType]:
    if isinstance(value, FunctionType) and value.__module__ == module:
        yield from _nested(value.__code__)
    elif isinstance(value, type) and value.__module__ == module:
        for member in vars(value).values():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions made inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
