"""A script as remedies see it: what it calls, where, and edits of its text that touch nothing else.

In: source text. Out: edits of byte spans, each with the remedy that wants it, and notes on what was left alone and
why. LibCST finds the places and resolves names through imports (``from torch.utils.data import DataLoader as DL``);
text between and around the edited places stays as it is, byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst import metadata as meta

from unstall.errors import UsageError

PROVIDERS = (
    meta.ByteSpanPositionProvider,
    meta.PositionProvider,
    meta.ParentNodeProvider,
    meta.QualifiedNameProvider,
)
PASSED_THROUGH = ("enumerate", "tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "islice", "itertools.islice", "iter", "zip")
"""Calls around a loader that hand out its batches."""


@dataclass(frozen=True)
class Edit:
    """Replace ``data[start:end]`` by ``text``; ``remedy`` wants it. Bytes, not characters."""

    start: int
    end: int
    text: str
    remedy: str
    line: int


@dataclass(frozen=True)
class Left:
    """Something that could not be edited: where (line 0: the whole script) and why."""

    line: int
    text: str
    remedy: str


class Script:
    """One parsed script, and what remedies want of it."""

    def __init__(self, text: str, path: str = "script", *, workers: int = 4) -> None:
        self.text, self.workers = text, workers
        self.data = text.encode()
        try:
            wrapper = meta.MetadataWrapper(cst.parse_module(self.data), unsafe_skip_copy=True)
            found: Any = wrapper.resolve_many(PROVIDERS)
        except cst.ParserSyntaxError as error:
            where = f"line {error.raw_line}: {error.message.splitlines()[0]}"
            raise UsageError(path, f"is not Python that can be read ({where})", "Mend the syntax first") from error
        except RecursionError as error:
            raise UsageError(path, "is nested too deeply to be patched", "Split its longest expression") from error
        self.module = wrapper.module
        self._spans, self._positions, self._parents, self._names = (found[p] for p in PROVIDERS)
        self.edits: list[Edit] = []
        self.left: list[Left] = []
        self.remedy = ""
        self._nodes = list(_walk(self.module))

    # What there is ------------------------------------------------------------------------------------------------

    def nodes(self, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """All nodes of a kind, in order."""
        return (n for n in self._nodes if isinstance(n, kind))

    def calls(self, name: str) -> list[cst.Call]:
        """Calls of what is imported as ``name`` (dotted, from where it is public), in order."""
        return [n for n in self.nodes(cst.Call) if isinstance(n, cst.Call) and name in self.qualified(n.func)]

    def qualified(self, node: cst.CSTNode) -> set[str]:
        """Dotted names that an expression may be; ``torch.utils.data.dataloader.DataLoader`` is also its public one."""
        found = self._names.get(node, set())
        names = {q.name for q in found() if callable(found)} if callable(found) else {q.name for q in found}
        return (
            names
            | {re.sub(r"^(torch\.utils\.data)\.dataloader\.", r"\1.", n) for n in names}
            | {re.sub(r"^(torch\.optim)\.\w+\.(\w+)$", r"\1.\2", n) for n in names}
        )

    def code(self, node: cst.CSTNode) -> str:
        """The node's own text."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        found = self._spans[node]
        return found.start, found.start + found.length

    def line(self, node: cst.CSTNode | None) -> int:
        return 0 if node is None else int(self._positions[node].start.line)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        up: cst.CSTNode | None = self._parents.get(node)
        return up

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Parents, innermost first."""
        up = self.parent(node)
        while up is not None:
            yield up
            up = self.parent(up)

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The line that holds the node."""
        return next((n for n in self.above(node) if isinstance(n, cst.SimpleStatementLine)), None)

    def below(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """All nodes under one, in order."""
        return (n for n in _walk(node) if n is not node)

    def before(self, statement: cst.CSTNode) -> cst.CSTNode | None:
        """The statement in front of one, in the same block."""
        body = list(getattr(self.parent(statement), "body", ()))
        index = next((i for i, s in enumerate(body) if s is statement), 0)
        return body[index - 1] if index else None

    def in_loop(self, node: cst.CSTNode) -> bool:
        """Whether a loop of the same function runs it."""
        for up in self.above(node):
            if isinstance(up, (cst.For, cst.While)):
                return True
            if isinstance(up, (cst.FunctionDef, cst.Lambda)):
                return False
        return False

    def name_of(self, module: str) -> str:
        """What a whole module is called at the top of the script; empty where it is not imported so."""
        for line in self.module.body:
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.Import):
                    for alias in small.names:
                        if alias.evaluated_name == module:
                            return alias.evaluated_alias or module
                        if alias.evaluated_name.startswith(f"{module}.") and not alias.asname:
                            return module
        return ""

    # Arguments ----------------------------------------------------------------------------------------------------

    def unclear(self, call: cst.Call) -> bool:
        """Whether ``*args`` or ``**kwargs`` hide what a call gets."""
        return any(a.star for a in call.args)

    def argument(self, call: cst.Call, name: str, position: int | None = None) -> str | None:
        """Text of an argument; ``None`` where it is not given."""
        found = self._argument(call, name, position)
        return None if found is None else self.code(found.value)

    def _argument(self, call: cst.Call, name: str, position: int | None) -> cst.Arg | None:
        for index, arg in enumerate(call.args):
            if (arg.keyword and arg.keyword.value == name) or (not arg.keyword and index == position):
                return arg
        return None

    def simple_data(self, call: cst.Call) -> bool:
        """Whether nothing says that the loader's data set is iterable-style: its class, where this script has it."""
        iterable = {
            c.name.value
            for c in self.nodes(cst.ClassDef)
            if isinstance(c, cst.ClassDef)
            and any("torch.utils.data.IterableDataset" in self.qualified(b.value) for b in c.bases)
        }
        given = self.argument(call, "dataset", 0) or ""
        made = " ".join(self.code(v) for v in self._assigned(given))
        return not any(re.search(rf"\b{re.escape(name)}\b", f"{given} {made}") for name in iterable)

    def assigned(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """Everything that a name is assigned anywhere in the script."""
        return self._assigned(self.code(node)) if isinstance(node, cst.Name) else []

    def _assigned(self, name: str) -> list[cst.BaseExpression]:
        return [
            node.value
            for node in self.nodes(cst.Assign)
            if isinstance(node, cst.Assign) and any(self.code(t.target) == name for t in node.targets)
        ]

    # Batches --------------------------------------------------------------------------------------------------------

    def batch_copies(self, loader: str) -> list[cst.Call]:
        """``x.to(device)`` and ``x.cuda()`` where ``x`` comes out of a loader made by this script: in a ``for`` loop
        over it, or by ``next`` of its iterator in the same function."""
        made = self._names_of(loader)
        found: list[cst.Call] = []
        for loop in self.nodes(cst.For):
            if isinstance(loop, cst.For) and self._draws(loop.iter, loader, made):
                found += self._copies_of(loop.target, loop.body)
        for call in self.calls("builtins.next"):
            drawn, line = self.parent(call), self.statement(call)
            source = call.args[0].value if call.args else call
            iterators = self.assigned(source)
            if isinstance(drawn, cst.Assign) and iterators and all(self._draws(i, loader, made) for i in iterators):
                found += self._copies_of(drawn.targets[0].target, self.function(drawn)) if line is not None else []
        return list(dict.fromkeys(found))

    def _copies_of(self, target: cst.CSTNode, where: cst.CSTNode) -> list[cst.Call]:
        batch = {n.value for n in _walk(target) if isinstance(n, cst.Name)}
        return [c for c in _walk(where) if isinstance(c, cst.Call) and self._sends(c, batch)]

    def _names_of(self, made_by: str) -> set[str]:
        """Names that are assigned nothing but what this call makes."""
        calls = self.calls(made_by)
        names = {self.code(t.target) for c in calls for t in getattr(self.parent(c), "targets", ())}
        return {n for n in names if all(v in calls for v in self._assigned(n))}

    def _draws(self, source: cst.BaseExpression, loader: str, made: set[str]) -> bool:
        if isinstance(source, cst.Call) and loader not in self.qualified(source.func):
            passed = set(PASSED_THROUGH) & {n.removeprefix("builtins.") for n in self.qualified(source.func)}
            return bool(passed and source.args) and self._draws(source.args[0].value, loader, made)
        return isinstance(source, cst.Call) or self.code(source) in made

    def _sends(self, call: cst.Call, batch: set[str]) -> bool:
        """A copy of a batch's tensor to a device, as far as the text tells."""
        function = call.func
        if not isinstance(function, cst.Attribute) or function.attr.value not in ("to", "cuda") or self.unclear(call):
            return False
        root: cst.BaseExpression = function.value
        while isinstance(root, (cst.Subscript, cst.Attribute)):
            root = root.value
        if not isinstance(root, cst.Name) or root.value not in batch:
            return False
        if function.attr.value == "cuda":
            return len([a for a in call.args if not a.keyword]) <= 1
        positional = [a for a in call.args if not a.keyword]
        target = self.argument(call, "device", 0) or ""
        device = re.fullmatch(
            r"""(\w+\.)*\w*(dev|device|gpu)\w*|[rub]?["']cuda[:\d]*["']|torch\.device\(.*\)""", target
        )
        return bool(device) and len(positional) <= 1

    def models(self) -> list[tuple[str, cst.SimpleStatementLine]]:
        """Names whose parameters an optimizer gets, with the statement in the same function that made them last."""
        found: dict[int, tuple[str, cst.SimpleStatementLine]] = {}
        for node in self.nodes(cst.Call):
            if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
                continue
            name, method = node.func.value, node.func.attr.value
            given = any(isinstance(up, cst.Call) and _is_optimizer(self.qualified(up.func)) for up in self.above(node))
            if method == "parameters" and isinstance(name, cst.Name) and given:
                made = self._made_here(name, node)
                if made is not None:
                    found[id(made)] = (name.value, made)
        return list(found.values())

    def _made_here(self, name: cst.Name, use: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The last statement in front of the use, in the same function or module body, that assigns the name."""
        home = self.function(use)
        made = [
            line
            for value in self.assigned(name)
            if (line := self.statement(value)) is not None
            and self.function(line) is home
            and self.line(line) < self.line(use)
        ]
        return made[-1] if made else None

    def function(self, node: cst.CSTNode) -> cst.CSTNode:
        """The function that holds a node, or the module."""
        return next((up for up in self.above(node) if isinstance(up, cst.FunctionDef)), self.module)

    def with_definitions(self, node: cst.CSTNode) -> str:
        """Text of a node and of the script's own classes and functions that it names, and of those that they name."""
        texts = {n.name.value: self.code(n) for n in self._nodes if isinstance(n, (cst.ClassDef, cst.FunctionDef))}
        out, new = "", self.code(node)
        while new:
            out += new
            named = [n for n in texts if re.search(rf"\b{re.escape(n)}\b", new)]
            new = "".join(texts.pop(n) for n in named)
        return out

    # Edits ----------------------------------------------------------------------------------------------------------

    def replace(self, node: cst.CSTNode, text: str) -> None:
        start, end = self.span(node)
        self._edit(start, end, text, self.line(node))

    def _edit(self, start: int, end: int, text: str, line: int) -> None:
        edit = Edit(start, end, text, self.remedy, line)
        if edit not in self.edits:
            self.edits.append(edit)

    def leave(self, node: cst.CSTNode | None, why: str) -> None:
        """Say that something was not edited, and why."""
        self.left.append(Left(self.line(node), why, self.remedy))

    def set_argument(self, call: cst.Call, name: str, value: str, *, position: int | None = None) -> None:
        """Give a keyword argument, or give it another value, in the style in which the call is written."""
        there = self._argument(call, name, position)
        if there is not None:
            if self.code(there.value) != value:
                self.replace(there.value, value)
            return
        open_end = self.span(call)[1] - 1  # the closing bracket
        if not call.args:
            inside = self.data[:open_end].rstrip()
            self._edit(
                len(inside),
                len(inside),
                f"{name}={value}" if not self._added(call) else f", {name}={value}",
                self.line(call),
            )
            return
        self._append(call, call.args[-1], open_end, f"{name}={value}")

    def _added(self, call: cst.Call) -> bool:
        start, end = self.span(call)
        return any(start <= e.start <= end for e in self.edits)

    def _append(self, call: cst.Call, last: cst.Arg, close: int, text: str) -> None:
        """Behind the last argument: on a line of its own where that one has its own line."""
        line = self.line(call)
        end = self.span(last.value)[1]
        gap = _code_only(self.data[end:close].decode())
        own_line = self._begins_line(last)
        if own_line is None:
            comma = gap.find(",")
            at = end if comma < 0 else end + len(gap[: comma + 1].encode())
            self._edit(at, at, f", {text}" if comma < 0 else f" {text},", line)
            return
        stop = gap.find(self.newline)  # a comment behind the last argument stays with it
        at = end + len(gap[:stop].encode()) if stop >= 0 else end
        if "," not in gap and not any(e.start == end and e.text == "," for e in self.edits):
            self._edit(end, end, ",", line)
        self._edit(at, at, f"{self.newline}{own_line}{text},", line)

    def _begins_line(self, arg: cst.Arg) -> str | None:
        """The indentation in front of an argument that begins its line; ``None`` where it does not."""
        start = self.span(arg)[0]
        before = self.data[:start].decode().rpartition("\n")[2]
        return before if not before.strip() else None

    def drop_argument(self, call: cst.Call, name: str) -> None:
        """Take a keyword argument out, with its comma."""
        found = self._argument(call, name, None)
        if found is None:
            return
        index = list(call.args).index(found)
        start, end = self.span(found)
        if index:
            start = self.span(call.args[index - 1].value)[1]
            end = self.span(found.value)[1]
        elif len(call.args) > 1:
            end = self.span(call.args[1])[0]
        self._edit(start, end, "", self.line(found))

    def delete(self, statement: cst.CSTNode) -> None:
        """Take out a statement with its whole line."""
        start, end = self.span(statement)
        start = self.data.rfind(b"\n", 0, start) + 1
        stop = self.data.find(b"\n", max(end - 1, 0))
        self._edit(start, len(self.data) if stop < 0 else stop + 1, "", self.line(statement))

    @property
    def newline(self) -> str:
        return self.module.default_newline

    def insert_after(self, statement: cst.SimpleStatementLine | cst.BaseCompoundStatement, text: str) -> None:
        """A line of its own behind a statement, indented alike."""
        start, end = self.span(statement)
        indent = re.match(r"[ \t]*", self.data[:start].decode().rpartition("\n")[2])
        stop = self.data.find(b"\n", max(end - 1, 0))
        at = len(self.data) if stop < 0 else stop
        if self.newline == "\r\n" and at and self.data[at - 1 : at] == b"\r":
            at -= 1
        self._edit(at, at, f"{self.newline}{indent[0] if indent else ''}{text}", self.line(statement))

    def after_imports(self, text: str) -> None:
        """A line of its own behind the last import at the top of the script."""
        imports = [
            line
            for line in self.module.body
            if isinstance(line, cst.SimpleStatementLine)
            and any(isinstance(small, (cst.Import, cst.ImportFrom)) for small in line.body)
        ]
        last = imports[0]
        for line in imports[1:]:  # up to the first statement that is none: a late import is no place for settings
            between = self.module.body[self.module.body.index(last) + 1 : self.module.body.index(line)]
            if between:
                break
            last = line
        torch = next(line for line in imports if "torch" in self.code(line))
        if self.module.body.index(torch) > self.module.body.index(last):
            last = torch
        self.insert_after(last, f"{self.newline}{text}")

    def result(self) -> str:
        """The script with all edits made."""
        out, at = [], 0
        for edit in sorted(self.edits, key=lambda e: (e.start, e.end)):
            if edit.start < at:
                continue  # inside something that was replaced
            out += [self.data[at : edit.start], edit.text.encode()]
            at = edit.end
        return b"".join([*out, self.data[at:]]).decode()


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all below it, in order."""
    yield node
    for child in node.children:
        yield from _walk(child)


def _code_only(text: str) -> str:
    """Comments blanked out, lengths kept."""
    return re.sub(r"#[^\n]*", lambda m: " " * len(m[0]), text)


def _is_optimizer(names: Sequence[str] | set[str]) -> bool:
    return any(re.fullmatch(r"(torch\.)?optim\.\w+(\.\w+)?", name) for name in names)
