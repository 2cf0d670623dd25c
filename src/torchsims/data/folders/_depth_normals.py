import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

JUMP = 0.05  # a surface ends where the inverse depth of a pixel leaves the line through its neighbours by this share


def normals_from_depth(
    depth: Tensor, focal: tuple[float, float], centre: tuple[float, float], reach: int = 3
) -> Tensor:
    r"""Return the normals of the surfaces that a depth image shows.

    .. math::
        n = \frac{(X_{v+r} - X_{v-r}) \times (X_{u+r} - X_{u-r})}{|\cdot|}, \qquad
        X_{uv} = d_{uv} \left( \frac{u - c_x}{f_x}, \frac{v - c_y}{f_y}, 1 \right)

    - :math:`d` is the depth, :math:`(u, v)` the middle of a pixel, :math:`f` is ``focal``, :math:`c` is ``centre`` and
      :math:`r` is ``reach``. Each X is the mean over a square of :math:`2r + 1` pixels: exact on a plane, and it takes
      noise away.

    Args:
        depth: metres along the axis of the camera, `1 x height x width`; 0 is not known.
        focal: focal lengths along x and y, in pixels.
        centre: where the axis of the camera meets the image, x and y in pixels.
        reach: how many pixels to each side are looked at.

    Returns:
        Unit vectors towards the camera, x to the right, y down, z forward, `3 x height x width`; zero where a depth
        within the reach is not known or jumps.

    Example:
        >>> normals_from_depth(torch.full((1, 8, 8), 2.0), focal=(8.0, 8.0), centre=(4.0, 4.0), reach=1)[:, 3, 3]
        tensor([ 0.,  0., -1.])
    """
    height, width = depth.shape[-2:]
    x = (torch.arange(width) + 0.5 - centre[0]) / focal[0]
    y = (torch.arange(height) + 0.5 - centre[1]) / focal[1]
    points = torch.cat([depth * x, depth * y[:, None], depth]).double()
    points = avg_pool2d(points, 2 * reach + 1, stride=1, padding=reach, count_include_pad=False)
    rows, columns = torch.arange(height), torch.arange(width)
    below, above = ((rows + step).clamp(0, height - 1) for step in (reach, -reach))
    right, left = ((columns + step).clamp(0, width - 1) for step in (reach, -reach))
    along_y = points[:, below] - points[:, above]
    along_x = points[:, :, right] - points[:, :, left]
    normals = torch.linalg.cross(along_y, along_x, dim=0)
    facing = torch.where((normals * points).sum(dim=0) > 0, -1.0, 1.0)
    length: Tensor = normals.norm(dim=0)
    known = _smooth(depth, 2 * reach) & (length > 0)
    units: Tensor = facing * normals / length.where(known, 1.0)
    return units.where(known, 0.0).to(depth.dtype)


def _smooth(depth: Tensor, reach: int) -> Tensor:
    """Return where all depths within the reach are known and none jumps, `height x width`.

    On a plane, however slanted, the inverse depth is linear in the place of a pixel: its second differences are zero.
    """
    known = depth > 0
    inverse = 1 / depth.where(known, 1.0)
    rough = ~known
    for dim in (1, 2):
        length = depth.shape[dim] - 2
        before, here, after = (inverse.narrow(dim, start, length) for start in (0, 1, 2))
        rough.narrow(dim, 1, length).logical_or_((before + after - 2 * here).abs() > JUMP * here)
    return max_pool2d(rough.float(), 2 * reach + 1, stride=1, padding=reach)[0] == 0
