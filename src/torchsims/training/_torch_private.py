"""What touches private parts of torch: counting what the operators of a step compute, move and keep."""

import weakref
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


def storages_of(model: nn.Module, state: object) -> dict[int, int]:
    """Return the bytes of the storages of a model and of a state, by storage."""
    tensors = [*model.parameters(), *model.buffers(), *tree_leaves(state)]
    found = [each.untyped_storage() for each in tensors if isinstance(each, Tensor)]
    return {storage._cdata: storage.nbytes() for storage in found}


@final
class OperatorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts floating-point operations, bytes that operators read and write, and the most that are alive at once."""

    def __init__(self, known: dict[int, int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen, self._live = set(known), sum(known.values())
        self.peak, self.moved, self.flops = self._live, 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not func.is_view:
            self.moved += sum(leaf.numel() * leaf.element_size() for leaf in (*read, *made))
        if (formula := flop_registry.get(func._overloadpacket)) is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=result)
        for leaf in made:
            self._note(leaf.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self._live += size
        self.peak = max(self.peak, self._live)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._live -= size
