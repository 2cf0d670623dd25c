"""The ranks that share one batch: the only module of the steppers that imports `torch.distributed`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from torchsims.steppers._buckets import buckets, unflatten
from torchsims.steppers._model_checks import check_wrapped
from torchsims.steppers._modes import NOTHING, autocast_kinds
from torchsims.steppers._torch_private import hook_restorer, outermost

__all__ = ["Ranks"]


class Ranks:
    """The ranks that train one model on the parts of one batch; one rank if `torch.distributed` is not in use.

    Args:
        model: a plain module, one inside `DistributedDataParallel`, or one sharded with `fully_shard`.
        process_group: the ranks that share the batch; those of the wrapper, or else all of them, by default.

    Attributes:
        size: the number of ranks.
        device: the device of the model.
        autocast_kinds: the types of devices whose autocast may be in use around it.
        wrapped: whether a wrapper averages the gradients over the ranks.
        sharded: whether each rank holds a part of every parameter.
    """

    def __init__(self, model: nn.Module, process_group: Any = None) -> None:
        self.size, self.wrapped, self.sharded = 1, False, False
        self.device = next(model.parameters()).device
        self.one = torch.ones((), dtype=torch.float32, device=self.device)  # for kernels that take a factor
        self.found = torch.zeros(1, dtype=torch.float32, device=self.device)  # and return a number
        self.autocast_kinds = autocast_kinds(self.device)
        self._ddp: Any = None
        self._shards: list[Any] = []
        self._entrances: list[nn.Module] = []
        self._parts = 1
        self._failure: Exception | None = None
        self._group = process_group
        if not (dist.is_available() and dist.is_initialized()):
            if process_group is not None:
                raise ValueError("Parameter `process_group` needs `torch.distributed.init_process_group` first.")
            return
        from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
        from torch.nn.parallel import DistributedDataParallel

        modules = list(model.modules())
        if any(isinstance(module, FullyShardedDataParallel) for module in modules):
            raise ValueError("`FullyShardedDataParallel` flattens the parameters. Shard with `fully_shard` instead.")
        self._ddp = next((module for module in modules if isinstance(module, DistributedDataParallel)), None)
        self._shards = [module for module in modules if isinstance(module, FSDPModule)]
        self.wrapped, self.sharded = self._ddp is not None or bool(self._shards), bool(self._shards)
        if self.wrapped:
            inside = {id(p) for p in (self._ddp or nn.Module()).parameters()}
            check_wrapped(model, lambda p: id(p) in inside or self.is_sharded(p))
        if self._group is None:
            self._group = self._group_of(model)
        self.size = dist.get_world_size(self._group)
        if self._shards and self.size > 1:
            self._entrances = outermost(model, FSDPModule)

    @property
    def views_buckets(self) -> bool:
        """Whether gradients are views of buffers that the next backward pass overwrites."""
        return self._ddp is not None and bool(self._ddp.gradient_as_bucket_view)

    @property
    def prefix(self) -> str:
        """What the wrapper puts before the name of every parameter."""
        return "" if self._ddp is None else "module."

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over the ranks."""
        if self.size > 1:
            dist.all_reduce(tensor, group=self._group)
        return tensor

    def all(self, flag: Tensor) -> Tensor:
        """Return whether ``flag`` is true on every rank."""
        if self.size > 1:
            flag = flag.to(torch.int32)
            dist.all_reduce(flag, dist.ReduceOp.MIN, group=self._group)
        return flag.bool()

    def gather(self, value: Any) -> list[Any]:
        """Return ``value`` of every rank, in order of rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self._group)
        return values

    def raise_on_all(self, parts: int = 1) -> AbstractContextManager[None]:
        """Raise on every rank if the body raises on any, so that none waits for a rank that has stopped.

        One that fails inside the forward pass of a sharded model does leave the others waiting there.

        Args:
            parts: how often the ranks will meet here, which must be the same for all.
        """
        return NOTHING if self.size == 1 else self._raising_on_all(parts)

    @contextmanager
    def _raising_on_all(self, parts: int) -> Iterator[None]:
        self._parts, error = parts, None
        try:
            try:
                yield
            except Exception as caught:  # raised again below, on every rank
                error = caught
            self._meet(error, done=True)
        finally:
            self._failure = None

    def _meet(self, error: Exception | None, *, done: bool) -> None:
        """Wait for the other ranks, and raise if any has failed or if they are not all at the same place.

        Args:
            error: why this rank has failed, if it has.
            done: whether this rank has left the body of :meth:`raise_on_all`, or is about to enter a sharded module.
        """
        if self._failure is not None:  # raised inside the closure already; the other ranks wait no longer
            raise self._failure
        parts = self._parts
        flags = torch.tensor([error is None, parts, -parts, done, not done], dtype=torch.int32, device=self.device)
        dist.all_reduce(flags, dist.ReduceOp.MIN, group=self._group)
        fine, fewest, most, all_done, none_done = flags.tolist()
        if not fine:
            messages = self.gather(None if error is None else f"{type(error).__name__}: {error}")
            rank, message = next((rank, message) for rank, message in enumerate(messages) if message)
            self._failure = error or RuntimeError(f"No step was taken because rank {rank} failed with {message}")
        elif fewest != -most:
            self._failure = ValueError(
                "Every rank should have the same number of micro-batches. "
                f"Found {fewest} on one and {-most} on another."
            )
        elif not (all_done or none_done):
            self._failure = ValueError(
                "The closure should call a sharded model equally often on every rank. "
                f"Found {'fewer' if done else 'more'} calls here than on another rank."
            )
        if self._failure is not None:
            raise self._failure

    def forward(self, module: nn.Module) -> AbstractContextManager[None]:
        """Run the closure so that no rank waits in the forward pass for one whose closure raised before.

        `DistributedDataParallel` broadcasts the buffers in its forward pass, which would pair up wrongly with the
        collectives of such a rank; :meth:`broadcast` has done it already. Whether the closure calls it is checked.
        A sharded model gathers its parameters there, so that the ranks have to meet before.
        """
        return self._watched_forward(module) if self._entrances or self._ddp is not None else NOTHING

    @contextmanager
    def _watched_forward(self, module: nn.Module) -> Iterator[None]:
        if self._entrances:
            hooks = [
                each.register_forward_pre_hook(lambda *_: self._meet(None, done=False), prepend=True)
                for each in self._entrances
            ]
            try:
                yield
            finally:
                for hook in hooks:
                    hook.remove()
            return
        calls: list[bool] = []
        watch = module is self._ddp  # a hook inside a compiled module would recompile it
        handle = self._ddp.register_forward_pre_hook(lambda *_: calls.append(True)) if watch else None
        broadcast, self._ddp.broadcast_buffers = self._ddp.broadcast_buffers, False
        try:
            yield
        finally:
            self._ddp.broadcast_buffers = broadcast
            if handle is not None:
                handle.remove()
        if watch and not calls:
            raise ValueError(
                "The closure should call the model it is given. "
                "Found no call: gradients that bypass `DistributedDataParallel` would not be reduced."
            )

    def reversals(self) -> list[Callable[[], None]]:
        """Return functions that configure the wrapper as it is now, should :meth:`forward` be interrupted."""
        ddp = self._ddp
        if ddp is None and not self._entrances:
            return []
        names = () if ddp is None else ("broadcast_buffers", "require_backward_grad_sync")
        flags = [partial(setattr, ddp, name, getattr(ddp, name)) for name in names]
        return [*flags, *(hook_restorer(each) for each in ([] if ddp is None else [ddp]) + self._entrances)]

    def broadcast(self, buffers: Callable[[], Sequence[Tensor]]) -> None:
        """Give every rank the buffers of the first one, if the wrapper is configured to."""
        if self.size == 1 or self._ddp is None or not self._ddp.broadcast_buffers:
            return
        self.broadcast_first(buffers())

    def broadcast_first(self, tensors: Sequence[Tensor]) -> None:
        """Give every rank the values of the first one."""
        source = dist.get_global_rank(self._group, 0) if self._group is not None else 0
        for bucket, flat in buckets(tensors):
            dist.broadcast(flat, source, group=self._group)
            unflatten(flat, bucket)

    def accumulation(self, last: bool) -> AbstractContextManager[Any]:
        """Leave the reduction of the gradients to the last micro-batch."""
        if self._ddp is None:
            return NOTHING
        if not last:
            return self._ddp.no_sync()  # type: ignore[no-any-return]
        if not self._ddp.require_backward_grad_sync:
            raise RuntimeError(
                "A step should not be inside `no_sync` or `accelerator.accumulate`, where ranks do not meet: "
                "give all micro-batches to one call, `step(task_losses, *micro_batches)`."
            )
        return NOTHING

    def reduce_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Sum the gradients over the ranks, where no wrapper does.

        A parameter has a gradient afterwards if it had one on any rank.
        """
        if self.size == 1 or self.wrapped:
            return
        present = torch.tensor([float(p.grad is not None) for p in parameters], device=self.device)
        self.sum(present)
        used = [p for p, n in zip(parameters, present.tolist(), strict=True) if n]
        for p in used:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            elif p.grad.is_sparse:
                p.grad = p.grad.to_dense()  # another rank's may be missing or have entries elsewhere
        self.sum_all([p.grad for p in used if p.grad is not None])

    def sum_all(self, tensors: Sequence[Tensor]) -> None:
        """Replace the values of all tensors by their sums over the ranks."""
        if self.size == 1:
            return
        for bucket, flat in buckets(tensors):
            dist.all_reduce(flat, group=self._group)
            unflatten(flat, bucket)

    def unshard(self) -> None:
        """Make sharded modules hold their whole parameters, until :meth:`reshard`."""
        for module in self._shards:
            module.unshard()

    def unwrapped(self, module: nn.Module) -> nn.Module:
        """Return the module inside `DistributedDataParallel`, or the given one if there is no such wrapper."""
        inside: nn.Module = module if self._ddp is None else self._ddp.module
        return inside

    def reshard(self) -> None:
        """Make sharded modules read their parameters again, because their values are about to change."""
        for module in self._shards:
            module.reshard()

    def shard_like(self, tensor: Tensor, parameter: Tensor) -> Tensor:
        """Return this rank's part of a tensor that is the same on all ranks, split like ``parameter``."""
        if not self._shards:
            return tensor
        from torch.distributed.tensor import DTensor, Replicate

        if not isinstance(parameter, DTensor):
            return tensor
        everywhere = [Replicate()] * parameter.device_mesh.ndim
        whole = DTensor.from_local(tensor, parameter.device_mesh, everywhere, run_check=False)
        return whole.redistribute(placements=parameter.placements)  # which sends nothing

    def is_sharded(self, parameter: Tensor) -> bool:
        """Return whether each rank holds a part of the parameter."""
        return bool(self._shards) and hasattr(parameter, "device_mesh")

    def full_tensor(self, tensor: Tensor) -> Tensor:
        """Return the full tensor, with the shards of all ranks."""
        return tensor.full_tensor() if self._shards and hasattr(tensor, "full_tensor") else tensor

    def local(self, tensor: Tensor) -> Tensor:
        """Return the shard of a tensor that this rank holds, as a dense tensor."""
        if self._shards and hasattr(tensor, "to_local"):
            tensor = tensor.to_local()
        return tensor.coalesce().values() if tensor.is_sparse else tensor

    def _group_of(self, model: nn.Module) -> Any:
        if self._ddp is not None:
            return self._ddp.process_group
        meshes = {p.device_mesh for p in model.parameters() if hasattr(p, "device_mesh")}
        mesh = meshes.pop() if len(meshes) == 1 else None
        return mesh.get_group() if mesh is not None and mesh.ndim == 1 else None
