"""Networks and losses for tables."""

import pytest
import torch

from torchsims.models import ESMM, class_loss, number_loss


def test_losses_are_native_units_over_the_known_rows() -> None:
    prediction, z = torch.randn(8, 1), torch.randn(8)
    z[2] = torch.nan
    total, count = number_loss(prediction, z, sd=1e4)
    expected = ((1e4 * prediction[:, 0] - 1e4 * z).double().square())[~z.isnan()].sum()
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert count == 7
    both = number_loss(
        torch.cat([prediction, prediction], 1), torch.stack([z, z], 1), torch.tensor([1e4, 1.0]).double()
    )
    assert both[0].tolist() == pytest.approx([total.item(), total.item() / 1e8])


def test_complete_targets_have_the_same_loss_and_gradient() -> None:
    z, sd = torch.randn(8, 3), torch.tensor([1e4, 1.0, 1e-3]).double()
    found = []
    for complete in (False, True):
        out = torch.linspace(-2, 2, 24).reshape(8, 3).requires_grad_()
        total, count = number_loss(out, z, sd, complete=complete)
        total.sum().backward()  # type: ignore[no-untyped-call]
        assert (count.tolist(), count.dtype) == ([8, 8, 8], torch.int64)
        found.append((total.detach(), out.grad))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    hidden = z.clone()
    hidden[0] = torch.nan
    assert number_loss(z, hidden, sd, complete=True)[0].isnan().all()  # it takes its caller at the word


def test_a_loss_is_never_zero_nor_infinite() -> None:
    exact, _ = number_loss(torch.ones(3, 1), torch.ones(3), sd=1e-9)
    assert 0 < exact.item() < 1e-30
    for logit in (500.0, -700.0):
        right, _ = class_loss(torch.tensor([[logit]]), torch.tensor([int(logit > 0)]))
        wrong, _ = class_loss(torch.tensor([[logit]]), torch.tensor([int(logit < 0)]))
        assert 0 < right.item() < 1e-100
        assert wrong.item() == pytest.approx(abs(logit))


def test_a_task_without_labels_counts_nothing_and_keeps_its_graph() -> None:
    out = torch.randn(4, 1, requires_grad=True)
    targets = {"number": torch.full((4,), torch.nan), "class": torch.full((4,), -1)}
    found = [number_loss(out, targets["number"], 2.0), class_loss(out, targets["class"])]
    assert [int(count) for _, count in found] == [0, 0]
    assert all(total.item() == 0 for total, _ in found)
    found[0][0].backward()  # type: ignore[no-untyped-call]
    assert out.grad is not None
    assert out.grad.abs().sum() == 0


def test_rows_without_a_label_do_not_change_what_is_learned() -> None:
    z = torch.tensor([0.5, torch.nan, -1.0, torch.nan])
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(3, 1)
    gradients = []
    for rows in (slice(None), ~z.isnan()):
        total, count = number_loss(model(x[rows]), z[rows])
        gradients.append(torch.autograd.grad(total / count, list(model.parameters())))
    for masked, dropped in zip(*gradients, strict=True):
        torch.testing.assert_close(masked, dropped, rtol=1e-6, atol=0)


def test_the_product_is_right_where_probabilities_are_extreme() -> None:
    model = ESMM({"ctr": 1, "ctcvr": 1}, numbers=1)
    for logit in (-60.0, 0.0, 12.0):
        for tower in model.towers:
            last = tower.get_submodule("1")
            torch.nn.init.zeros_(last.get_parameter("weight"))
            torch.nn.init.constant_(last.get_parameter("bias"), logit)
        out = model(torch.zeros(1, 1), torch.zeros(1, 0, dtype=torch.int64))["ctcvr"].double()
        p = torch.tensor(logit, dtype=torch.float64).sigmoid() ** 2
        torch.testing.assert_close(out.squeeze(), p.log() - (-p).log1p(), rtol=1e-2, atol=0, check_dtype=False)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_weight_is_how_often_a_row_is_there(outputs: int) -> None:
    torch.manual_seed(0)
    weight = torch.tensor([1, 3, 2, 1, 2])
    out = torch.randn(5, outputs)
    rows = torch.arange(5).repeat_interleave(weight)
    classes = torch.tensor([0, 1, -1, 1, 0])
    z = torch.tensor([0.5, torch.nan, 1.0, -2.0, 0.0])
    pairs = [(class_loss(out, classes, weight), class_loss(out[rows], classes[rows]))]
    pairs.append((number_loss(out[:, :1], z, 10.0, weight), number_loss(out[rows, :1], z[rows], 10.0)))
    two = torch.stack([z, z.flip(0)], 1)
    sds = torch.tensor([1e3, 1e-3], dtype=torch.float64)
    both = torch.cat([out[:, :1]] * 2, 1)
    pairs.append((number_loss(both, two, sds, weight), number_loss(both[rows], two[rows], sds)))
    for weighted, repeated in pairs:
        torch.testing.assert_close(weighted[0], repeated[0])
        torch.testing.assert_close(weighted[1].double(), repeated[1].double())
