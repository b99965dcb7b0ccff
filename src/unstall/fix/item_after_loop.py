"""Running sums and lists of losses kept on the device, and read once after the loop.

``total += loss.item()`` makes the host wait for the GPU in every step. Where it can be proved that nobody reads the
total inside the loop, the sum is made on the device in the arithmetic that Python would have used (fp64), so the value
is the same bit by bit, and read after the loop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from unstall.fix.remedy import Remedy

if TYPE_CHECKING:
    import libcst as cst

NUMBER = re.compile(r"0(\.0*)?")


def patch(script: Any) -> None:
    """Every ``total += loss.item()`` and ``losses.append(loss.item())`` in a loop where it is the same."""
    import libcst as cst

    for call in script.nodes(cst.Call):
        if _is_item(call) and script.in_loop(call):
            _defer(script, call)


def _is_item(call: Any) -> bool:
    attribute = getattr(call.func, "attr", None)
    return attribute is not None and attribute.value == "item" and not call.args


def _defer(script: Any, call: cst.Call) -> None:
    import libcst as cst

    statement, loop = script.statement(call), _innermost(script, call)
    small = statement.body[0] if statement is not None and len(statement.body) == 1 else None
    if loop is None:
        return
    if not isinstance(script.parent(loop), (cst.IndentedBlock, cst.Module)):
        return
    if isinstance(small, cst.AugAssign) and small.value is call and isinstance(small.operator, cst.AddAssign):
        why = _sum(script, call, small, loop)
    elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) and _appends(small.value, call):
        why = _list(script, call, small.value, loop)
    else:
        why = "its value is used inside the loop"
    if why:
        script.leave(call, f"{script.code(call)} makes the host wait in every step: {why}")


def _innermost(script: Any, node: Any) -> Any:
    import libcst as cst

    return next((up for up in script.above(node) if isinstance(up, (cst.For, cst.While))), None)


def _appends(outer: Any, call: Any) -> bool:
    attribute = getattr(outer.func, "attr", None)
    return attribute is not None and attribute.value == "append" and [a.value for a in outer.args] == [call]


def _sum(script: Any, call: Any, small: Any, loop: Any) -> str:
    """``total += loss.item()`` → ``total += loss.detach().double()``. Returns why not; empty when done."""
    name = script.code(small.target)
    why = _provable(script, call, name, small.target, loop, start=NUMBER)
    if not why:
        script.replace(call, f"{script.code(call.func.value)}.detach().double()")
        script.insert_after(loop, f"{name} = float({name})")
    return why


def _list(script: Any, call: Any, outer: Any, loop: Any) -> str:
    """``losses.append(loss.item())`` → a list of tensors that becomes one of numbers behind the loop."""
    name = script.code(outer.func.value)
    why = _provable(script, call, name, outer.func.value, loop, start=re.compile(r"\[\s*\]"))
    if not why:
        script.replace(call, f"{script.code(call.func.value)}.detach().clone()")
        script.insert_after(loop, f"{name} = [float(value) for value in {name}]")
    return why


def _provable(script: Any, call: Any, name: str, use: Any, loop: Any, *, start: re.Pattern[str]) -> str:
    """Why it may not be the same; empty where it is: a local name, set in front of the loop in the same block, used
    nowhere else inside it, and a loss that is a tensor because the loop calls ``backward`` on it."""
    import libcst as cst

    loss = script.code(call.func.value)
    inside = [n for n in script.below(loop) if isinstance(n, cst.Name) and n.value == name and n is not use]
    if not name.isidentifier():
        return f"{name} may be read elsewhere"
    if inside:
        return f"{name} is read inside the loop (line {script.line(inside[0])})"
    if not any(script.code(n.func) == f"{loss}.backward" for n in script.below(loop) if isinstance(n, cst.Call)):
        return f"nothing proves that {loss} is a tensor"
    if not _starts_before(script, name, loop, start):
        return f"{name} does not start at zero right in front of the loop"
    if any(isinstance(up, cst.Try) for up in script.above(loop)) or _outside_names(script, name):
        return f"{name} may be read elsewhere"
    return ""


def _starts_before(script: Any, name: str, loop: Any, start: re.Pattern[str]) -> bool:
    """The last statement of the block in front of the loop that speaks of the name is ``name = 0`` or ``name = []``."""
    block = list(script.parent(loop).body)
    for statement in reversed(block[: block.index(loop)]):
        text = script.code(statement)
        if re.search(rf"\b{re.escape(name)}\b", text):
            return bool(re.fullmatch(rf"{re.escape(name)}\s*=\s*({start.pattern})\s*(#.*)?", text.strip()))
    return False


def _outside_names(script: Any, name: str) -> bool:
    """Whether the name is shared through ``global`` or ``nonlocal``."""
    import libcst as cst

    return any(
        item.name.value == name
        for node in (*script.nodes(cst.Global), *script.nodes(cst.Nonlocal))
        for item in node.names
    )


REMEDY = Remedy(
    name="item-after-loop",
    title="Losses read once after the loop",
    write="total += loss.detach().double() in the loop; total = float(total) behind it",
    codes=("blocking-sync", "device-to-host-copy"),
    patch=patch,
)
