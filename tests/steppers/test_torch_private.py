"""The private parts of torch that the steppers rely on: a release that changes one fails here, and is told which."""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import SGD

import torchsims
from torchsims.steppers import _torch_private as private

PACKAGE = Path(torchsims.__file__).parent


def scaled_step(scaler: GradScaler) -> SGD:
    """Return an optimizer whose gradients the scaler has scaled."""
    parameter = nn.Parameter(torch.ones(2))
    scaler.scale(parameter.sum()).backward()  # type: ignore[no-untyped-call]
    return SGD([parameter], lr=0.1)


def check_kernel() -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        gradients = [torch.full((3,), 4.0, dtype=dtype), torch.full((2, 2), 8.0, dtype=dtype)]
        assert private.unscale_and_check_(gradients, torch.tensor(0.25)) == 0
        assert [float(g.max()) for g in gradients] == [1.0, 2.0]
        for bad in (torch.nan, torch.inf):
            assert private.unscale_and_check_([torch.tensor([1.0, bad], dtype=dtype)], torch.tensor(1.0)) != 0


def check_scaler() -> None:
    scaler = GradScaler("cpu", init_scale=4.0)
    optimizer = scaled_step(scaler)
    assert not private.has_unscaled(scaler, [optimizer])
    scaler.unscale_(optimizer)
    assert private.has_unscaled(scaler, [optimizer])
    private.forget_optimizers(scaler, [optimizer])
    assert not private.has_unscaled(scaler, [optimizer])
    scaler.unscale_(optimizer)  # a second time only raises if the scaler remembers the first
    scaler.update()
    assert not private.has_unscaled(scaler, [optimizer])


def check_trees() -> None:
    tree = {"a": [torch.ones(2), "text"], "b": (torch.zeros(1), None)}
    doubled = private.map_tensors(lambda tensor: tensor + 1, tree)
    assert doubled["a"][0].tolist() == [2.0, 2.0]
    assert (doubled["a"][1], doubled["b"][0].tolist(), doubled["b"][1]) == ("text", [1.0], None)


def check_graph() -> None:
    first, second, third = (nn.Parameter(torch.ones(2)) for _ in range(3))
    shared = first * 2
    assert private.parameters_in_graph((shared + shared * second).sum()) == {id(first), id(second)}
    assert private.parameters_in_graph(third.sum()) == {id(third)}
    assert private.parameters_in_graph(torch.ones(1)) == set()


def check_compiled_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    expected = [name for name, _ in model.named_parameters()]
    model[1].compile(backend="eager")  # in place: no prefix
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    found = [name for name, _ in compiled.named_parameters()]
    assert found != expected
    assert [private.without_compile_prefix(name) for name in found] == expected


def check_copies() -> None:
    tensors = [nn.Parameter(torch.ones(2, 3)), torch.arange(3), torch.tensor(-0.0), torch.ones(4, 2).T, torch.empty(0)]
    for each in (tensors, [*tensors, torch.eye(2).to_sparse()]):
        versions = [tensor._version for tensor in each]
        values = private.clones(each)
        assert not any(value.requires_grad for value in values)
        assert [value.stride() for value in values if not value.is_sparse] == [tensor.stride() for tensor in tensors]
        private.overwrite(each, [value * 2 for value in values])
        assert all(torch.equal(a.to_dense(), 2 * b.to_dense()) for a, b in zip(each, values, strict=True))
        assert all(tensor._version > version for tensor, version in zip(each, versions, strict=True))
        private.overwrite(each, values)


def check_gradient_hooks() -> None:
    source, target = (nn.Parameter(torch.ones(1)) for _ in range(2))
    private.share_hooks([source], [target])
    calls: list[str] = []
    register: Any = source.register_hook
    register(lambda gradient: gradient * 2)
    register = source.register_post_accumulate_grad_hook
    handle = register(lambda p: calls.append("late"))
    private.share_hooks([source], [target])
    (target * 3).sum().backward()  # type: ignore[no-untyped-call]
    assert target.grad is not None
    assert target.grad.tolist() == [6.0]
    handle.remove()
    (target * 3).sum().backward()  # type: ignore[no-untyped-call]
    assert calls == ["late"]


def check_hooks() -> None:
    module, calls = nn.Linear(1, 1), []
    module.register_forward_hook(lambda *_: calls.append("first"))
    restore = private.hook_restorer(module)
    module.register_forward_hook(lambda *_, **__: calls.append("late"), with_kwargs=True, always_call=True)
    module.register_forward_pre_hook(lambda *_, **__: calls.append("early"), with_kwargs=True)
    restore()
    module(torch.ones(1))
    assert calls == ["first"]
    assert not module._forward_hooks_always_called


def check_entrances() -> None:
    inner = nn.Sequential(nn.Linear(1, 1))
    model = nn.ModuleList([nn.Sequential(inner, nn.Linear(1, 1)), inner, nn.Linear(1, 1)])
    assert private.outermost(model, nn.Sequential) == [model[0], inner]
    assert private.outermost(model[0], nn.Sequential) == [model[0]]
    compiled: Any = torch.compile(model, backend="eager")
    assert private.outermost(compiled, nn.Sequential) == [compiled]
    inner.compile(backend="eager")
    assert private.outermost(model, nn.Sequential) == [model[0]]


def freeze(model: nn.Sequential) -> None:
    model[0].requires_grad_(False)


def replace(model: nn.Sequential) -> None:
    model[0].weight = nn.Parameter(torch.ones(1, 1))


def convert(model: nn.Sequential) -> None:
    model[0].weight.data = model[0].weight.data.double()


def remove(model: nn.Sequential) -> None:
    model[0].register_parameter("bias", None)


def rename(model: nn.Sequential) -> None:
    model.add_module("other", model[0])
    del model[0]


def exchange(model: nn.Sequential) -> None:
    model[2] = nn.ReLU()


def check_tables() -> None:
    for change in (freeze, replace, convert, remove, rename, exchange):
        model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False), nn.Tanh())
        before = private.signature(model)
        for p in model.parameters():
            p.data.add_(1)
        model.eval()
        assert private.signature(model) == before
        change(model)
        assert private.signature(model) != before, change


class Counting(nn.Module):
    def get_extra_state(self) -> int:
        return 1


def check_states() -> None:
    buffered, hooked = nn.Module(), nn.ReLU()
    buffered.register_buffer("seen", torch.zeros(1))
    hooked.register_state_dict_post_hook(lambda *_: None)  # type: ignore[no-untyped-call]
    for module in (nn.Linear(1, 1), nn.Sequential(nn.ReLU()), Counting(), hooked):
        assert not private.is_leaf(module), module
    for leaf in (nn.ReLU(), buffered):
        assert private.is_leaf(leaf), leaf
    restore = private.leaf_restorer(buffered)
    buffered.eval().get_buffer("seen").fill_(3.0)
    buffered.register_buffer("seen", torch.ones(2))
    restore()
    assert buffered.training
    assert buffered.get_buffer("seen").tolist() == [0.0]


def check_backward() -> None:
    x = nn.Parameter(torch.tensor([1.0, 2.0]))
    for _ in range(2):  # gradients are added up
        private.run_backward(x.square(), torch.tensor([1.0, 10.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 80.0]
    with pytest.raises(RuntimeError, match="shape"):  # the engine looks at it too
        private.run_backward(x.square(), torch.ones(3))


CHECKS: dict[str, Callable[[], None]] = {
    "torch.autograd.graph._engine_run_backward": check_backward,
    "torch._amp_foreach_non_finite_check_and_unscale_": check_kernel,
    "GradScaler._per_optimizer_states": check_scaler,
    "torch._foreach_clone and torch._foreach_copy_": check_copies,
    "the tables of forward hooks of modules": check_hooks,
    "the tables of hooks of gradients": check_gradient_hooks,
    "the tables of parameters and modules": check_tables,
    "the tables of what the state of a module holds": check_states,
    "torch.utils._pytree.tree_map_only": check_trees,
    "torch::autograd::AccumulateGrad and its `variable`": check_graph,
    "the prefix `_orig_mod.` of `torch.compile`": check_compiled_names,
    "`_orig_mod` and `_compiled_call_impl` of compiled modules": check_entrances,
}


def run_check(part: str) -> None:
    try:
        CHECKS[part]()
    except Exception as error:
        pytest.fail(
            f"torch {torch.__version__} changed {part}: adapt `torchsims/steppers/_torch_private.py`. Found {error!r}."
        )


@pytest.mark.parametrize("part", CHECKS)
def test_torch_has_what_the_steppers_rely_on(part: str) -> None:
    run_check(part)


def missing(name: str, *_: object) -> Tensor:
    raise AttributeError(name)


def test_a_torch_without_a_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_amp_foreach_non_finite_check_and_unscale_", partial(missing, "gone"))
    with pytest.raises(pytest.fail.Exception, match=r"changed torch\._amp_foreach\S+: adapt .*_torch_private.py"):
        run_check("torch._amp_foreach_non_finite_check_and_unscale_")


def private_names(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield every name with an underscore in front that a file uses, and whether it defines it."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module)) if not module.startswith("torchsims"):
                names = [*module.split("."), *(alias.name for alias in node.names)]
                yield from ((f"import of {name}", False) for name in names if name.startswith("_"))
            case ast.Attribute(attr=name, ctx=context) if name.startswith("_") and not name.startswith("__"):
                yield name, isinstance(context, ast.Store)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, True


def test_only_files_called_private_use_private_parts_of_another_package() -> None:
    found = {path: set(private_names(path)) for path in PACKAGE.rglob("*.py")}
    defined = {name for names in found.values() for name, defines in names if defines}
    foreign = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, names in found.items()
        for name, defines in names
        if not defines and name not in defined and not path.stem.endswith("_private")
    }
    assert foreign == set()
