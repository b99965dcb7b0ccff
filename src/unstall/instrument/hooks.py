"""The torch calls that ``--auto`` turns into ranges. Nothing here imports torch: it is handed in once the script did.

Comes in: the torch module. Goes out: ranges called as in the lab, on the thread that makes the call.

=============  =====================================================================================================
data_load      a draw from a ``DataLoader``'s iterator, and making that iterator (workers start there)
h2d_transfer   ``Tensor.to``, ``cuda`` and ``copy_`` from host to device; may lie inside another phase
forward        a call of an outermost ``nn.Module`` (``forward_no_grad`` where gradients are off)
backward       ``Tensor.backward``, ``torch.autograd.backward``
optimizer      ``Optimizer.step``, through torch's own global hooks; what a closure does is not part of it
checkpoint     ``torch.save`` and what frameworks save with
=============  =====================================================================================================

Values are never touched: every wrapper calls the original with the same arguments and returns what it returned. A
phase inside another phase of the same thread is left out, ``h2d_transfer`` apart.
"""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident
from collections.abc import Callable, MutableSet
from contextlib import suppress
from typing import Any

from unstall.instrument import compiled
from unstall.instrument.importhook import guarded, when_imported
from unstall.instrument.phases import Phases

PLAIN_CALL = ("_compiled_call_impl", "_call_impl")
"""What torch's own ``Module.__call__`` refers to, if it is the one we know: call the compiled one, else the plain one.
A model has many modules, so each must cost next to nothing: for them we do the same, one frame for another."""

UNKNOWN = 1 << 62  # draws: data without a length

SAVERS = (
    ("safetensors.torch", "save_file"),
    ("torch.distributed.checkpoint.state_dict_saver", "save"),
    ("lightning.pytorch.trainer.trainer", "Trainer.save_checkpoint"),
    ("pytorch_lightning.trainer.trainer", "Trainer.save_checkpoint"),
)
"""Functions that write checkpoints without ``torch.save`` being the whole of it."""

Function = Callable[..., Any]


def install(torch: Any, phases: Phases, parts: tuple[str, ...]) -> None:
    """Hook what ``parts`` name; a part that this torch does not offer is told on stderr and left out."""
    when_imported("torch._dynamo.decorators", compiled.hide)
    for part, hook in _HOOKS.items():
        if part in parts or (part in _FOR_STEPS and {"steps", "losses"} & set(parts)):
            guarded(hook, torch, phases, part in parts)


def _phase(name: str, original: Function, phases: Phases) -> Function:
    """``original`` as a phase called ``name``."""
    inside, enter, leave = phases.inside, phases.enter, phases.leave

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        if me in inside:
            return original(*args, **kwargs)
        enter(me, name)
        try:
            return original(*args, **kwargs)
        finally:
            leave(me)

    return call


def _hook_data(torch: Any, phases: Phases, ranges: bool) -> None:
    dataloader = torch.utils.data.dataloader
    name = "data_load" if ranges else ""
    _hook_next(dataloader._BaseDataLoaderIter, phases, name)
    make = _phase(name, dataloader.DataLoader.__iter__, phases)
    sources: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def __iter__(self: Any) -> Any:  # noqa: N807
        iterator = make(self)
        if phases.finder is not None:
            guarded(_label, iterator, sources.setdefault(self, len(sources)))
            weakref.finalize(iterator, guarded, phases.finder.released, iterator._unstall_source).atexit = False
        return iterator

    dataloader.DataLoader.__iter__ = __iter__


def _label(iterator: Any, source: int) -> None:
    """Which loader it draws from, and how often it can, so that the draw which finds nothing is known before."""
    iterator._unstall_source = source
    with suppress(TypeError, NotImplementedError):  # data without a length
        iterator._unstall_length = len(iterator)


def _hook_next(cls: Any, phases: Phases, name: str) -> None:
    original, inside, enter, leave, finder = cls.__next__, phases.inside, phases.enter, phases.leave, phases.finder

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        me = get_ident()
        if me in inside and not phases.stale(me):
            return original(self)
        source = self.__dict__.get("_unstall_source", -1)
        if finder is not None:
            if self._num_yielded >= self.__dict__.get("_unstall_length", UNKNOWN):
                guarded(finder.at_end)
            else:
                guarded(finder.drawing, source)
        enter(me, name)
        try:
            return original(self)
        except StopIteration:
            if finder is not None:
                guarded(finder.exhausted, source)
            raise
        finally:
            leave(me)

    cls.__next__ = __next__


def _hook_forward(torch: Any, phases: Phases, ranges: bool) -> None:
    module = torch.nn.Module
    original, inside, enter, leave, finder = module.__call__, phases.inside, phases.enter, phases.leave, phases.finder
    grad_enabled, worker = torch.is_grad_enabled, torch.utils.data.get_worker_info
    plain = getattr(original, "__code__", None) is not None and original.__code__.co_names == PLAIN_CALL

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        me = get_ident()
        if me in inside:
            if plain and self._compiled_call_impl is None:  # what the original does next, without its frame
                return self._call_impl(*args, **kwargs)
            return original(self, *args, **kwargs)
        if phases.in_backward or worker() is not None:
            return original(self, *args, **kwargs)
        grad = grad_enabled()
        if finder is not None and (finder.idle or not grad):
            guarded(finder.working if grad else finder.without_grad)
        enter(me, ("forward" if grad else "forward_no_grad") if ranges else "")
        try:
            return original(self, *args, **kwargs)
        finally:
            leave(me)

    module.__call__ = __call__


def _hook_backward(torch: Any, phases: Phases, ranges: bool) -> None:
    original, inside, losses, finder = torch.autograd.backward, phases.inside, phases.note_loss, phases.finder
    name = "backward" if ranges else ""

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        if me in inside:
            return original(tensors, *args, **kwargs)
        if losses is not None:
            losses(tensors)
        phases.enter(me, name)
        phases.in_backward += 1
        try:
            return original(tensors, *args, **kwargs)
        finally:
            phases.in_backward -= 1
            phases.leave(me)
            if finder is not None and finder.no_optimizer:
                guarded(finder.went_backward)

    torch.autograd.backward = backward


def _hook_optimizer(torch: Any, phases: Phases, ranges: bool) -> None:
    optim = sys.modules["torch.optim.optimizer"]  # torch.optim hides the submodule's name
    name, compiling = "optimizer" if ranges else "", torch.compiler.is_compiling

    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:  # a compiled step must compile to what it was
        return None if compiling() else _before_step(phases, name, optimizer, args, kwargs)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not compiling():
            _after_step(phases, optimizer)

    optim.register_optimizer_step_pre_hook(before)
    optim.register_optimizer_step_post_hook(after)


def _before_step(phases: Phases, name: str, optimizer: Any, args: Any, kwargs: Any) -> Any:
    me = get_ident()
    if me in phases.inside or phases.in_backward:
        return None  # stepped by another optimizer, or by a hook in the middle of backward
    phases.stepping[me] = optimizer
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    phases.enter(me, name)
    if closure is None:
        return None

    @functools.wraps(closure)
    def outside(*a: Any, **k: Any) -> Any:  # forward and backward are phases of their own, not the optimizer's time
        phases.leave(me)
        try:
            return closure(*a, **k)
        finally:
            phases.enter(me, name)

    if len(args) > 1:
        return (args[0], outside, *args[2:]), kwargs
    return args, {**kwargs, "closure": outside}


def _after_step(phases: Phases, optimizer: Any) -> None:
    me = get_ident()
    if phases.stepping.get(me) is not optimizer:
        return
    del phases.stepping[me]
    phases.leave(me)
    if phases.finder is not None:
        guarded(phases.finder.stepped, id(optimizer))


def _hook_save(torch: Any, phases: Phases, ranges: bool) -> None:
    torch.save = _phase("checkpoint", torch.save, phases)
    for module, path in SAVERS:
        when_imported(module, functools.partial(_hook_saver, phases, path))


def _hook_saver(phases: Phases, path: str, module: Any) -> None:
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, module)
    setattr(owner, name, _phase("checkpoint", getattr(owner, name), phases))


def _hook_copies(torch: Any, phases: Phases, ranges: bool) -> None:
    if not phases.anywhere and not (torch.backends.cuda.is_built() or torch.version.hip):
        return  # this torch knows no device to copy to
    tensor, plain = torch.Tensor, (torch.Tensor, torch.nn.Parameter)

    def goes_out(self: Any, args: Any, kwargs: Any) -> bool:
        target = args[0] if args else kwargs.get("device", kwargs.get("other"))
        return _is_device(target, torch) and type(self) in plain and self.is_cpu

    def comes_in(self: Any, args: Any, kwargs: Any) -> bool:
        source = args[0] if args else kwargs.get("src")
        return type(source) in plain and type(self) in plain and source.is_cpu and not self.is_cpu

    for name, test in (
        ("to", goes_out),
        ("cuda", lambda self, args, kwargs: type(self) in plain and self.is_cpu),
        ("copy_", comes_in),
    ):
        setattr(tensor, name, _copy(getattr(tensor, name), test, phases))


def _is_device(target: Any, torch: Any) -> bool:
    """Whether a tensor sent ``to`` this leaves the host."""
    kind = type(target)
    if kind is str:
        return not target.startswith(("cpu", "meta"))
    if kind is torch.device:
        return target.type not in ("cpu", "meta")
    if kind is torch.Tensor:
        return not target.is_cpu
    return kind is int


def _copy(original: Any, leaves_host: Callable[[Any, Any, Any], bool], phases: Phases) -> Any:
    copying: MutableSet[int] = phases.copying
    gate = phases.gate

    @functools.wraps(original)
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not leaves_host(self, args, kwargs) or (me := get_ident()) in copying:
            return original(self, *args, **kwargs)
        copying.add(me)
        hidden = phases.seen.holds(me, "h2d_transfer")
        if not hidden:
            gate.push("h2d_transfer")
        try:
            return original(self, *args, **kwargs)
        finally:
            if not hidden:
                gate.pop()
            copying.discard(me)

    return copy


_HOOKS: dict[str, Callable[[Any, Phases, bool], None]] = {
    "data_load": _hook_data,
    "h2d_transfer": _hook_copies,
    "forward": _hook_forward,
    "backward": _hook_backward,
    "optimizer": _hook_optimizer,
    "checkpoint": _hook_save,
}
_FOR_STEPS = ("data_load", "forward", "backward", "optimizer")  # steps and losses are found through these
