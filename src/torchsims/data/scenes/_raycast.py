"""Ray casting of many scenes at once.

A pixel is computed by sums, products, quotients, square roots and comparisons of its own numbers, which round the same
however the work is split: no bit of an image depends on the batch in which it is rendered.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsims.data.scenes._layout import BOXES, CEILING, ELLIPSOIDS, FIRST_PANEL, FLOOR, PANELS, WALL

Vector = tuple[Tensor, Tensor, Tensor]

FIRST_THING = 1 + PANELS  # among the solids: the room, the panels, boxes, ellipsoids, cylinders
KINDS = (FIRST_THING + BOXES, FIRST_THING + BOXES + ELLIPSOIDS)  # where boxes end, where ellipsoids end

TINY = 1e-20  # roots of zero and below are forty times slower


class Hits(NamedTuple):
    """What the rays hit; every tensor but the slopes is `scene x pixel`.

    Attributes:
        solid: which solid, the room first.
        surface: which surface, as in :class:`torchsims.data.scenes._layout.Layout`.
        point: the place in the frame of the camera; its third coordinate is the depth.
        local: the place in the coordinates of the solid.
        normal: the unit normal in the frame of the camera, towards it.
        slope: the directions of all rays in the coordinates of all solids, `scene x solid x pixel`.
    """

    solid: Tensor
    surface: Tensor
    point: Vector
    local: Vector
    normal: Vector
    slope: Vector


def dot(a: Vector, b: Vector) -> Tensor:
    """Return the inner product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _columns(row: Tensor) -> Vector:
    x, y, z = row.unsqueeze(-2).unbind(-1)
    return x, y, z


def unit(vector: Vector) -> Vector:
    """Return the vector with length one."""
    length = dot(vector, vector).sqrt()
    return vector[0] / length, vector[1] / length, vector[2] / length


def _slab(start: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Return where |start + t slope| < 1 begins and ends."""
    inverse = slope.reciprocal()
    middle, half = start * inverse, inverse.abs()
    return (middle + half).neg_(), half - middle


def _disc(start: Sequence[Tensor], slope: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return where |start + t slope|_2 < 1 begins and ends; it ends at minus infinity where it never begins."""
    square = sum((d * d for d in slope[1:]), slope[0] * slope[0])
    middle = -sum((o * d for o, d in zip(start[1:], slope[1:], strict=True)), start[0] * slope[0]) / square
    # The square of the closest distance, from the closest point itself: no difference of large squares.
    closest = [o + middle * d for o, d in zip(start, slope, strict=True)]
    inside = 1 - sum((c * c for c in closest[1:]), closest[0] * closest[0])
    half = (inside.clamp(min=TINY) / square).sqrt()
    return middle - half, (middle + half).where(inside > 0, -torch.inf)


def _intersect(kind: str, start: Sequence[Tensor], slope: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return where each ray enters and leaves a solid, in multiples of its direction."""
    if kind == "ellipsoid":
        return _disc(start, slope)
    if kind == "cylinder":
        parts = [_disc([start[0], start[2]], [slope[0], slope[2]]), _slab(start[1], slope[1])]
    else:
        parts = [_slab(o, d) for o, d in zip(start, slope, strict=True)]
    enter, leave = parts[0]
    for other_enter, other_leave in parts[1:]:
        enter, leave = torch.maximum(enter, other_enter), torch.minimum(leave, other_leave)
    return enter, leave


def _groups(first_box: int, solids: int) -> list[tuple[str, slice]]:
    return [
        ("box", slice(first_box, KINDS[0])),
        ("ellipsoid", slice(*KINDS)),
        ("cylinder", slice(KINDS[1], solids)),
    ]


def cast(to_local: Tensor, offset: Tensor, x: Tensor, y: Tensor) -> Hits:
    """Return what the rays (x, y, 1) from the camera meet first, for the x of every column and the y of every row.

    A solid has the local coordinates A X + b: ``to_local`` is A, `scene x solid x 3 x 3`, ``offset`` is b.
    """
    slope = _slopes(to_local, x, y)
    start = _columns(offset)
    ends = [(torch.copysign(torch.ones_like(d), d) - o) / d for o, d in zip(_of(0, start), _of(0, slope), strict=True)]
    found = [torch.minimum(torch.minimum(ends[0], ends[1]), ends[2])]  # the way out of the room
    for kind, group in _groups(1, to_local.shape[1]):
        enter, leave = _intersect(kind, _of(group, start), _of(group, slope))
        found.append(enter.where((enter < leave) & (enter > 0), torch.inf))
    depth, solid = torch.cat(found, dim=1).min(dim=1)
    point = (x.repeat(len(y)) * depth, y.repeat_interleave(len(x)) * depth, depth)
    return _describe(to_local, offset, slope, point, solid)


def _slopes(to_local: Tensor, x: Tensor, y: Tensor) -> Vector:
    """Return the direction A (x, y, 1) of every ray in every solid's coordinates, `scene x solid x pixel` each."""
    a = to_local[..., None, None]  # scene x solid x 3 x 3 x 1 x 1
    across = a[:, :, :, 0] * x  # a part for every column and one for every row: one addition per pixel
    down = a[:, :, :, 1] * y[:, None] + a[:, :, :, 2]
    first, second, third = ((across[:, :, i] + down[:, :, i]).flatten(2) for i in range(3))
    return first, second, third


def _of(group: int | slice, vector: Vector) -> Vector:
    """Return the part of some solids; a single one keeps its dimension."""
    which = slice(group, group + 1) if isinstance(group, int) else group
    return vector[0][:, which], vector[1][:, which], vector[2][:, which]


def _describe(to_local: Tensor, offset: Tensor, slope: Vector, point: Vector, solid: Tensor) -> Hits:
    table = torch.cat([to_local.flatten(2), offset], dim=2).transpose(1, 2)  # scene x 12 x solid
    rows = table.gather(2, solid.unsqueeze(1).expand(-1, 12, -1)).unbind(1)  # 12 of scene x pixel
    ray = [component.gather(1, solid.unsqueeze(1)).squeeze(1) for component in slope]
    x, y, z = (o + d * point[2] for o, d in zip(rows[9:], ray, strict=True))
    faces = _faces(rows[9:], ray, inside=solid == 0)
    is_box, is_ball = solid < KINDS[0], (solid >= KINDS[0]) & (solid < KINDS[1])
    is_side = ~is_box & ~is_ball & (y * y <= x * x + z * z)  # of a cylinder
    is_top = ~is_box & ~is_ball & ~is_side
    normal = [
        q.where(~is_box, -torch.copysign(f.to(q.dtype), d)) for q, f, d in zip((x, y, z), faces, ray, strict=True)
    ]
    nx, nz = normal[0].where(~is_top, 0.0), normal[2].where(~is_top, 0.0)
    ny = normal[1].where(~is_side, 0.0)
    back = ((rows[i], rows[3 + i], rows[6 + i]) for i in range(3))  # A transposed turns normals back
    tx, ty, tz = (dot(column, (nx, ny, nz)) for column in back)
    room = torch.where(faces[1], torch.where(y > 0, FLOOR, CEILING), WALL)
    surface = torch.where(solid == 0, room, solid + (FIRST_PANEL - 1))
    return Hits(solid, surface, point, (x, y, z), unit((tx, ty, tz)), slope)


def _faces(start: Sequence[Tensor], slope: Sequence[Tensor], inside: Tensor) -> list[Tensor]:
    """Return whether a ray meets a box in its faces across x, y and z: the last to enter by, or the first to leave by.

    The times decide and not the place, which is uncertain to rounding on the narrow sides of a thin panel.
    """
    ends = [_slab(o, d) for o, d in zip(start, slope, strict=True)]
    times = [torch.where(inside, -leave, enter) for enter, leave in ends]
    last = torch.maximum(torch.maximum(times[0], times[1]), times[2])
    return [time == last for time in times]


def lit(hits: Hits, to_local: Tensor, offset: Tensor, lamp: Tensor) -> Tensor:
    """Return which points see the lamp, `scene x pixel`; a solid, being convex, throws no shadow on itself.

    The place of the lamp is in the frame of the camera, `scene x 3`; ``to_local`` and ``offset`` as in :func:`cast`.
    """
    rows = to_local * lamp[:, None, None, :]
    goal = _columns(rows[..., 0] + rows[..., 1] + rows[..., 2] + offset)
    origin = _columns(offset)
    depth = hits.point[2].unsqueeze(1)
    blocked = torch.zeros_like(hits.solid, dtype=torch.bool)
    for kind, group in _groups(FIRST_THING, to_local.shape[1]):  # panels are part of their wall
        pairs = zip(_of(group, origin), _of(group, hits.slope), strict=True)
        start = [o + d * depth for o, d in pairs]
        slope = [g - at for g, at in zip(_of(group, goal), start, strict=True)]
        enter, leave = _intersect(kind, start, slope)
        number = torch.arange(group.start, group.stop, device=depth.device).view(1, -1, 1)
        between = (enter < leave) & (leave > 0) & (enter < 1) & (hits.solid.unsqueeze(1) != number)
        blocked |= between.any(dim=1)
    return ~blocked
