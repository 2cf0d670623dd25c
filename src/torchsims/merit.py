r"""The merit functions of the paper as pure functions of losses.

Symbols, used alike in formulas and code:

- :math:`L` (``losses``, `... x m`): the losses at :math:`\theta`, the model;
- :math:`L'` (``challenger``, `... x m`): the losses at :math:`\theta'`, the challenger;
- :math:`d_i = \psi(L'_i) - \psi(L_i)`, with :math:`\psi` = ``transform``;
- :math:`\tau` (``tau``): the temperature of the smooth maximum;
- :math:`\rho` (``augment``): the weight of the sum, 0 in the paper;
- :math:`p` (``preference``, `m`): how much each task matters; none by default and in the paper;
- :math:`R` (``reference``, `... x m`): fixed losses that a preference is relative to, such as the first ones;
- :math:`\lambda` (``prox``): the weight of :math:`\lVert \theta - \theta' \rVert^2` (``squared_distance``, `...`), both
  0 by default;
- ``labelled`` (`... x m`, bool): the tasks that count, all by default; :math:`m` is then their number. Unlabelled
  entries of the losses have no effect as long as they are positive and finite;
- :math:`L^{\inf}` (``ideal``, `m`): the infimum of every loss.

Any leading dimensions are allowed and independent; :math:`\tau`, :math:`\rho` and :math:`\lambda` may be tensors over
them, so that many runs with many settings advance as one tensor.
"""

import torch
from torch import Tensor

from torchsims.transforms import Log, Transform

__all__ = ["chebyshev", "coefficients", "f0", "h", "p_max", "smooth_max", "u", "v", "weights"]

_LOG = Log()


def smooth_max(
    values: Tensor, *, tau: float | Tensor, augment: float | Tensor = 0.0, labelled: Tensor | None = None
) -> Tensor:
    r"""Return the augmented smooth maximum of ``values``, :math:`d`, over the last dimension.

    .. math::
        \frac{\tau \ln \sum_i \exp(d_i / \tau) + \rho \sum_i d_i}{1 + m \rho}

    Example:
        >>> smooth_max(torch.tensor([1.0, 3.0]), tau=0.01)
        tensor(3.)
    """
    _check(tau, augment)
    smooth = torch.logsumexp(_logits(values, tau, labelled), -1)
    if not _is(tau, 1):
        smooth = tau * smooth
    if _is(augment, 0):
        return smooth
    counted = values if labelled is None else values.where(labelled, 0)
    m = values.shape[-1] if labelled is None else labelled.sum(-1, dtype=values.dtype)
    return (smooth + augment * counted.sum(-1)) / (1 + augment * m)


def h(
    losses: Tensor,
    challenger: Tensor,
    *,
    tau: float | Tensor,
    transform: Transform = _LOG,
    augment: float | Tensor = 0.0,
    labelled: Tensor | None = None,
    prox: float | Tensor = 0.0,
    squared_distance: Tensor | float = 0.0,
) -> Tensor:
    r"""Return the saddle function that :math:`\theta` maximises and :math:`\theta'` minimises.

    .. math::
        h = \frac{\tau \ln \sum_i \exp(d_i / \tau) + \rho \sum_i d_i}{1 + m \rho}
            + \frac{\lambda}{2} \lVert \theta - \theta' \rVert^2

    At :math:`\theta = \theta'` it is :math:`\tau \ln m`, whatever the losses are.

    Example:
        >>> losses = torch.tensor([0.02, 5e6])
        >>> h(losses, losses, tau=1.0)
        tensor(0.6931)
    """
    d = transform.difference(challenger, losses)
    smooth = smooth_max(d, tau=tau, augment=augment, labelled=labelled)
    return smooth if _is(prox, 0) else smooth + 0.5 * prox * squared_distance


def f0(
    losses: Tensor,
    reference: Tensor,
    preference: Tensor,
    *,
    tau: float | Tensor,
    transform: Transform = _LOG,
    labelled: Tensor | None = None,
) -> Tensor:
    r"""Return the preference objective, which chooses a point of the Pareto front.

    .. math::
        f_0 = \tau \ln \sum_i \exp(e_i / \tau), \qquad e_i = \psi(L_i) - \psi(R_i) + \ln p_i

    It grows with every loss, so that its minimisers are Pareto-optimal. Of two minimisers for preferences that differ
    in one task, the one with the larger preference has no larger loss of it, because :math:`\exp(f_0 / \tau)` is a sum
    over the tasks with the factors :math:`p_i^{1 / \tau}`. An augmentation would break this, and there is none. With
    :math:`\psi = \ln` units do not matter, and for small :math:`\tau` all :math:`p_i L_i / R_i` are equal where the
    front allows it.

    Example:
        >>> f0(torch.tensor([1.0, 1e6]), torch.tensor([2.0, 4e6]), torch.tensor([1.0, 2.0]), tau=0.01)
        tensor(-0.6862)
    """
    e = transform.difference(losses, reference) + preference.log()
    return smooth_max(e, tau=tau, labelled=labelled)


def weights(
    losses: Tensor,
    challenger: Tensor,
    *,
    tau: float | Tensor,
    transform: Transform = _LOG,
    augment: float | Tensor = 0.0,
    labelled: Tensor | None = None,
    preference: Tensor | None = None,
    reference: Tensor | None = None,
) -> Tensor:
    r"""Return the task weights of a step of :math:`\theta`, a point of the simplex.

    .. math::
        w_i = \frac{\operatorname{softmax}_i(d / \tau) + \rho}{1 + m \rho}

    They are the derivatives of :math:`h` by every :math:`d_i`, large for the tasks on which the challenger gains least.
    A task without labels has weight zero. With a preference, which needs a reference, :math:`\theta` minimises
    :math:`f_0` penalised by the merit function, :math:`f_0 + \gamma v`:

    .. math::
        \bar w = \frac{w^0 + \gamma w}{1 + \gamma}, \qquad
        w^0 = \operatorname{softmax}(e / \tau), \qquad
        \gamma = \exp\left( \frac{u}{\tau} \right) - 1, \qquad u = \max(0, \min_i -d_i)

    with :math:`e` from :func:`f0`, and :math:`u` the merit :func:`u` by this challenger: the penalty is there as long
    as the challenger is better on every task, and is zero on the Pareto front, where :math:`f_0` alone decides.

    Example:
        >>> weights(torch.tensor([1.0, 1e6]), torch.tensor([0.5, 1e6]), tau=1.0)
        tensor([0.3333, 0.6667])
    """
    _check(tau, augment)
    d = transform.difference(challenger, losses)
    w = simplex(d, tau=tau, augment=augment, labelled=labelled)
    if preference is None:
        return w
    if reference is None:
        raise ValueError("Parameter `reference` should be given with `preference`. Found `reference = None`.")
    e = transform.difference(losses, reference) + preference.log()
    w_0 = simplex(e, tau=tau, labelled=labelled)
    share = _logits(d, tau, labelled).amax(-1, keepdim=True).exp().clamp(max=1)  # 1 / (1 + gamma)
    return share * w_0 + (1 - share) * w


def coefficients(
    losses: Tensor,
    challenger: Tensor,
    *,
    tau: float | Tensor,
    transform: Transform = _LOG,
    augment: float | Tensor = 0.0,
    labelled: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return the coefficients of the gradients of the losses in a step of :math:`\theta` and of :math:`\theta'`.

    .. math::
        -\frac{\partial h}{\partial L_i} = w_i \psi'(L_i), \qquad
        \frac{\partial h}{\partial L'_i} = w_i \psi'(L'_i)

    Both are descent directions: :math:`\theta` minimises :math:`-h` and :math:`\theta'` minimises :math:`h`. The
    proximal term is not a function of the losses and not part of them.

    Example:
        >>> coefficients(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0]), tau=1.0)
        (tensor([0.5000, 0.1250]), tensor([0.5000, 0.1250]))
    """
    w = weights(losses, challenger, tau=tau, transform=transform, augment=augment, labelled=labelled)
    return transform.weigh(w, losses), transform.weigh(w, challenger)


def u(
    losses: Tensor,
    challengers: Tensor,
    *,
    transform: Transform = _LOG,
    prox: float | Tensor = 0.0,
    squared_distances: Tensor | float = 0.0,
) -> Tensor:
    r"""Return the unsmoothed merit function over a finite set of challengers.

    .. math::
        u_\lambda(\theta) = \max_{\theta'} \min_i \{ \psi(L_i(\theta)) - \psi(L_i(\theta')) \}
                            - \frac{\lambda}{2} \lVert \theta - \theta' \rVert^2

    With :math:`\lambda = 0` and :math:`\theta` among the challengers it is zero exactly where no challenger is better
    on every task (Theorem 1). ``challengers`` is `... x n x m`, and ``squared_distances`` is `... x n`.

    Example:
        >>> u(torch.tensor([2.0, 2.0]), torch.tensor([[1.0, 1.0], [2.0, 2.0], [0.1, 3.0]]))
        tensor(0.6931)
    """
    gain = transform.difference(losses.unsqueeze(-2), challengers)  # (..., n, m)
    return (gain.amin(-1) - 0.5 * _expand_last(prox) * squared_distances).amax(-1)


def v(
    losses: Tensor,
    challengers: Tensor,
    *,
    tau: float | Tensor,
    transform: Transform = _LOG,
    augment: float | Tensor = 0.0,
    prox: float | Tensor = 0.0,
    squared_distances: Tensor | float = 0.0,
) -> Tensor:
    r"""Return the smoothed merit function over a finite set of challengers.

    .. math::
        v_{\lambda,\tau}(\theta) = -\min_{\theta'} h_{\lambda,\tau}(\theta, \theta')

    For :math:`\rho = 0` it obeys :math:`v \le u_\lambda \le v + \tau \ln m`, and
    :math:`v \ge -\tau \ln m` when :math:`\theta` is among the challengers. At weakly Pareto-optimal points it lies in
    :math:`[-\tau \ln m, 0]`; only the unsmoothed :func:`u` is zero there. Shapes as in :func:`u`.

    Example:
        >>> v(torch.tensor([2.0, 2.0]), torch.tensor([[1.0, 1.0], [2.0, 2.0], [0.1, 3.0]]), tau=0.01)
        tensor(0.6862)
    """
    return -h(
        losses.unsqueeze(-2),
        challengers,
        tau=_expand_last(tau),
        transform=transform,
        augment=_expand_last(augment),
        prox=_expand_last(prox),
        squared_distance=squared_distances,
    ).amin(-1)


def p_max(losses: Tensor, ideal: Tensor | float = 0.0) -> Tensor:
    r"""Return :math:`p_{\max} = \max_i (L_i - L_i^{\inf})`, the distance to the ideal point in the maximum norm.

    It vanishes only at the ideal point, where every loss is at its own infimum, and not at every weakly Pareto-optimal
    point: by its own definition the paper's first example is not a merit function.

    Example:
        >>> p_max(torch.tensor([3.0, 2.0]), torch.tensor([0.0, 1.0]))
        tensor(3.)
    """
    return (losses - ideal).amax(-1)


def chebyshev(losses: Tensor, task_weights: Tensor, ideal: Tensor | float = 0.0) -> Tensor:
    r"""Return the weighted Chebyshev distance :math:`\max_i w_i (L_i - L_i^{\inf})` to the ideal point.

    Example:
        >>> chebyshev(torch.tensor([3.0, 2.0]), torch.tensor([1.0, 10.0]))
        tensor(20.)
    """
    return (task_weights * (losses - ideal)).amax(-1)


def simplex(
    values: Tensor, *, tau: float | Tensor, augment: float | Tensor = 0.0, labelled: Tensor | None = None
) -> Tensor:
    """Return the derivatives of :func:`smooth_max` by its values."""
    w = torch.softmax(_logits(values, tau, labelled), -1)
    if not _is(augment, 0):
        rho = _expand_last(augment)
        m = w.shape[-1] if labelled is None else labelled.sum(-1, keepdim=True, dtype=w.dtype)
        w = (w + rho) / (1 + rho * m)
    return w if labelled is None else w.where(labelled, 0)


def _logits(d: Tensor, tau: float | Tensor, labelled: Tensor | None) -> Tensor:
    logits = d if _is(tau, 1) else d / _expand_last(tau)
    return logits if labelled is None else logits.where(labelled, -torch.inf)


def _expand_last(setting: float | Tensor) -> float | Tensor:
    """Return a setting of the leading dimensions as one that also holds along a last one (tasks, challengers)."""
    return setting.unsqueeze(-1) if isinstance(setting, Tensor) else setting


def _is(setting: float | Tensor, number: int) -> bool:
    return not isinstance(setting, Tensor) and setting == number


def _check(tau: float | Tensor, augment: float | Tensor) -> None:
    """Check the settings that are numbers; looking into a tensor would wait for its device."""
    if not isinstance(tau, Tensor) and not tau > 0:
        raise ValueError(f"Parameter `tau` should be positive. Found `tau = {tau}`.")
    if not isinstance(augment, Tensor) and not augment >= 0:
        raise ValueError(f"Parameter `augment` should not be negative. Found `augment = {augment}`.")
