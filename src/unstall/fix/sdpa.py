"""Fused attention in place of ``softmax(q @ k^T * scale) @ v``.

Only the forms that are recognised as a whole are rewritten: softmax over the last axis of a product with a transposed
key, scaled by a factor or a divisor or not at all, times the value; without mask and dropout, in one expression or in
statements that follow each other and whose names nobody else uses.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from unstall.fix.remedy import Remedy

if TYPE_CHECKING:
    import libcst as cst

SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax")
MATMUL = ("torch.matmul", "torch.bmm")
FUNCTION = "nn.functional.scaled_dot_product_attention"
NUMERIC = re.compile(
    r"math\.sqrt\([^()]*(\([^()]*\))?[^()]*\)|[\d.\s()*/+\[\],-]|\w+\.(size|shape)\b|self\.\w*(dim|size|scale)\w*|\w*dim\b|\bd_?k\b"
)
"""Pieces of which a scale may be made: a tensor would not do as ``scale=``."""


def patch(script: Any) -> None:
    """Every product of a softmax that is attention."""
    import libcst as cst

    torch = script.name_of("torch")
    for node in [*script.nodes(cst.BinaryOperation), *script.nodes(cst.Call)]:
        match = _Attention(script, node)
        if not match.is_attention:
            continue
        if not torch:
            script.leave(node, "attention, but torch is not imported by name at the top of the script")
        elif match.why:
            script.leave(node, f"attention of a form that is not rewritten: {match.why}")
        else:
            script.replace(node, f"{torch}.{FUNCTION}({match.query}, {match.key}, {match.value}, scale={match.scale})")
            for statement in match.consumed:
                script.delete(statement)


class _Attention:
    """What is known of one product that may be attention.

    Attributes:
        is_attention: it is the product of a softmax with something.
        why: what keeps it from being rewritten; empty when nothing does.
        query, key, value, scale: text of the parts.
        consumed: statements that made what had names, each used for this alone.
    """

    def __init__(self, script: Any, node: Any) -> None:
        self.script, self.node = script, node
        self.consumed: list[Any] = []
        self.query = self.key = self.value = self.scale = ""
        sides = _product(script, node)
        softmax = self._made(sides[0]) if sides else None
        self.is_attention = softmax is not None and _is_softmax(script, softmax)
        self.why = self._read(sides, softmax) if sides and self.is_attention else ""
        if sides and not self.is_attention and any(_is_softmax(script, v) for v in script.assigned(sides[0])):
            self.is_attention, self.why = True, f"{script.code(sides[0])} is used or changed before this product"

    def _read(self, sides: tuple[Any, Any], softmax: Any) -> str:
        import libcst as cst

        scores = _softmax_of(self.script, softmax)
        if scores is None:
            return "the softmax is not over the last axis, or says more than that"
        scores = self._made(scores)
        self.scale = "1.0"
        if isinstance(scores, cst.BinaryOperation) and isinstance(scores.operator, (cst.Multiply, cst.Divide)):
            factor = self.script.code(scores.right)
            self.scale = factor if isinstance(scores.operator, cst.Multiply) else f"1.0 / ({factor})"
            if NUMERIC.sub("", factor):
                return f"{factor} is not known to be a number"
            scores = self._made(scores.left)
        product = _product(self.script, scores)
        self.key = _transposed(self.script, product[1]) or "" if product else ""
        if not product or not self.key:
            return "the scores are no product with a transposed key (a mask or dropout?)"
        self.query, self.value = self.script.code(product[0]), self.script.code(sides[1])
        return self._shared()

    def _made(self, node: Any) -> Any:
        """The expression itself, or what its name was given in the statement right in front of those seen so far."""
        import libcst as cst

        if not isinstance(node, cst.Name):
            return node
        last = self.consumed[-1] if self.consumed else self.script.statement(self.node)
        before = self.script.before(last) if last is not None else None
        small = before.body[0] if isinstance(before, cst.SimpleStatementLine) and len(before.body) == 1 else None
        if not isinstance(small, cst.Assign) or [self.script.code(t.target) for t in small.targets] != [node.value]:
            return node
        self.consumed.append(before)
        return small.value

    def _shared(self) -> str:
        """A name that anything else uses."""
        import libcst as cst

        names = Counter(self.script.code(s.body[0].targets[0].target) for s in self.consumed)
        function = next((u for u in self.script.above(self.node) if isinstance(u, cst.FunctionDef)), self.script.module)
        for name, count in names.items():
            uses = sum(isinstance(n, cst.Name) and n.value == name for n in self.script.below(function))
            if uses != 2 * count:
                return f"{name} is used elsewhere"
        return ""


def _is_softmax(script: Any, node: Any) -> bool:
    import libcst as cst

    if not isinstance(node, cst.Call):
        return False
    method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "softmax"
    return method or bool(script.qualified(node.func) & set(SOFTMAX))


def _product(script: Any, node: Any) -> tuple[Any, Any] | None:
    """Both sides of a matrix product."""
    import libcst as cst

    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        return node.left, node.right
    if isinstance(node, cst.Call) and len(node.args) == 2 and script.qualified(node.func) & set(MATMUL):
        return node.args[0].value, node.args[1].value
    return None


def _softmax_of(script: Any, node: Any) -> Any:
    """What a softmax over the last axis is taken of."""
    import libcst as cst

    if not isinstance(node, cst.Call):
        return None
    if script.qualified(node.func) & set(SOFTMAX) and node.args:
        return node.args[0].value if script.argument(node, "dim", 1) == "-1" and len(node.args) == 2 else None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "softmax" and len(node.args) == 1:
        return node.func.value if script.argument(node, "dim", 0) == "-1" else None
    return None


def _transposed(script: Any, node: cst.CSTNode) -> str | None:
    """``k`` of ``k.transpose(-2, -1)`` and ``k.mT``."""
    import libcst as cst

    if isinstance(node, cst.Attribute) and node.attr.value == "mT":
        return str(script.code(node.value))
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "transpose":
        axes = sorted(script.code(a.value) for a in node.args)
        return str(script.code(node.func.value)) if axes == ["-1", "-2"] else None
    return None


REMEDY = Remedy(
    name="sdpa",
    title="Fused attention",
    write="torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)",
    codes=("unfused-attention",),
    safety="changes-numerics",
    tolerance=1e-2,  # softmax and sums in tiles; in bf16 the plain form rounds between the products
    patch=patch,
)
