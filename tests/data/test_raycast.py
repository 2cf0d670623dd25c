"""The ray caster against a slow twin that walks along every ray and asks which solid it is in."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from torchsims.data.scenes._dataset import _rays
from torchsims.data.scenes._layout import BOXES, ELLIPSOIDS, FIRST_PANEL, PANELS, WALL, Layout, draw
from torchsims.data.scenes._raycast import Hits, cast, lit

STEP = 2e-3  # metres
SIZE = 24
Array = npt.NDArray[np.float64]


def contains(layout: Layout, points: Array) -> npt.NDArray[np.bool_]:
    """Return which solids hold each point, `point x solid`; the first is the room."""
    q = np.einsum("kij,pj->pki", layout.to_local, points) + layout.offset
    inside: npt.NDArray[np.bool_] = np.abs(q).max(axis=2) < 1
    ball, tube = 1 + PANELS + BOXES, 1 + PANELS + BOXES + ELLIPSOIDS
    inside[:, ball:tube] = (q[:, ball:tube] ** 2).sum(axis=2) < 1
    inside[:, tube:] = (q[:, tube:, 0] ** 2 + q[:, tube:, 2] ** 2 < 1) & (np.abs(q[:, tube:, 1]) < 1)
    return inside


def walk(layout: Layout, x: float, y: float) -> tuple[float, int]:
    """Return the depth at which a ray is first inside a solid or outside the room, and which solid."""
    depths = np.arange(0.1, 12, STEP)
    inside = contains(layout, depths[:, None] * np.array([x, y, 1.0]))
    stop = int(np.argmax(inside[:, 1:].any(axis=1) | ~inside[:, 0]))
    things = inside[stop, 1:]
    return float(depths[stop]), int(np.argmax(things)) + 1 if things.any() else 0


def sees(layout: Layout, point: Array, solid: int) -> bool:
    """Return whether nothing but the panels and the solid itself stands between a point and the lamp."""
    share = np.linspace(0, 1, 4000)[:, None]
    inside = contains(layout, point + share * (layout.light[:3] - point))
    inside[:, [*range(1 + PANELS), solid]] = False
    return not inside.any()


def render(layouts: list[Layout]) -> tuple[Hits, torch.Tensor]:
    to_local, offset, light = (
        torch.from_numpy(np.stack([getattr(layout, name) for layout in layouts])).float()
        for name in ("to_local", "offset", "light")
    )
    hits = cast(to_local, offset, *_rays(SIZE, SIZE))
    return hits, lit(hits, to_local, offset, light[:, :3])


@pytest.fixture(scope="module")
def layouts() -> list[Layout]:
    return [draw(np.random.default_rng(seed)) for seed in range(8)]


def test_rays_stop_where_the_twin_stops(layouts: list[Layout]) -> None:
    hits, seen = render(layouts)
    x, y = _rays(SIZE, SIZE)
    rng = np.random.default_rng(0)
    same = same_light = total = 0
    for scene, layout in enumerate(layouts):
        for pixel in rng.choice(SIZE * SIZE, 40, replace=False):
            depth, solid = walk(layout, x[pixel % SIZE].item(), y[pixel // SIZE].item())
            found, point = int(hits.solid[scene, pixel]), np.array([c[scene, pixel].item() for c in hits.point])
            total += 1
            if found == solid and abs(point[2] - depth) < 2 * STEP:
                same += 1
                same_light += sees(layout, point, solid) == bool(seen[scene, pixel])
    assert same >= 0.99 * total  # outlines and corners may fall between two steps
    assert same_light >= 0.98 * same
    assert 0.05 < 1 - seen.float().mean() < 0.5  # there are shadows


def test_surfaces_follow_solids(layouts: list[Layout]) -> None:
    hits, _ = render(layouts)
    room = hits.solid == 0
    assert (hits.surface[room] < FIRST_PANEL).all()
    assert (hits.surface[room] == WALL).any()
    assert torch.equal(hits.surface[~room], hits.solid[~room] + FIRST_PANEL - 1)
    local = torch.stack(hits.local).abs()
    torch.testing.assert_close(local.amax(0)[room], torch.ones_like(local[0][room]), rtol=0, atol=1e-4)


def test_things_that_are_not_raised_touch_the_floor(layouts: list[Layout]) -> None:
    heights = []
    for layout in layouts:
        up = layout.light[6:]
        for k in range(1 + PANELS, len(layout.offset)):
            centre = np.linalg.solve(layout.to_local[k], -layout.offset[k])
            if centre[2] < -100:  # an empty slot
                continue
            floor = np.linalg.solve(layout.to_local[0], np.array([0.0, 1.0, 0.0]) - layout.offset[0])
            axes = np.linalg.inv(layout.to_local[k]).T @ up  # how far each half axis reaches up
            if k < 1 + PANELS + BOXES:
                reach = np.abs(axes).sum()
            elif k < 1 + PANELS + BOXES + ELLIPSOIDS:
                reach = np.linalg.norm(axes)
            else:
                reach = np.abs(axes[1]) + np.hypot(axes[0], axes[2])
            heights.append((centre - floor) @ up - reach)
    assert min(heights) > -1e-9
    assert np.mean(np.abs(heights) < 1e-9) > 0.7
    assert max(heights) > 0.1
