"""The random layout of a scene in the coordinates of the camera."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CLASSES = ("floor", "wall", "ceiling", "window", "picture", "box", "ellipsoid", "cylinder")
"""The classes of a pixel, by label."""

UNLABELLED = -1
WINDOWS, PICTURES, BOXES, ELLIPSOIDS, CYLINDERS = 1, 2, 3, 3, 3  # slots; a slot is empty in some scenes
PANELS = WINDOWS + PICTURES
THINGS = BOXES + ELLIPSOIDS + CYLINDERS
FLOOR, WALL, CEILING, FIRST_PANEL = 0, 1, 2, 3  # the surfaces, in this order, then panels, boxes, ellipsoids, cylinders
SURFACES = FIRST_PANEL + PANELS + THINGS

SHARE_PRESENT = 0.65  # fraction of the slots
SHARE_TUMBLED, SHARE_RAISED = 0.3, 0.15  # fractions of the objects
SHARE_UNLABELLED = 0.06  # fraction of the objects, as annotators leave some out
NOWHERE = np.array([0.0, 0.0, -1e3])  # the centre of an empty slot in the frame of the camera: far behind it


@dataclass(frozen=True)
class Layout:
    """One scene in the frame of the camera: x to the right, y down, z forward, in metres.

    A solid is the set of points X whose local coordinates q = A X + b lie in the unit cube, ball or cylinder.

    Attributes:
        to_local: A of the room, the panels, boxes, ellipsoids and cylinders, `solid x 3 x 3`.
        offset: b of the same, `solid x 3`.
        label: the class of every surface, `surface`; floor, walls and ceiling are the surfaces of the room.
        material: the rows that :func:`torchsims.data.scenes._shading.colour` reads, `surface x 20`.
        light: the place of the lamp, its colour, and the direction upwards, `9`.
    """

    to_local: Array
    offset: Array
    label: npt.NDArray[np.int64]
    material: Array
    light: Array


def draw(rng: np.random.Generator) -> Layout:
    """Return a random scene."""
    room = rng.uniform([4.0, 2.4, 4.5], [7.0, 3.4, 8.0])  # width, height, depth; the ceiling is at y = 0
    camera = np.array([room[0] * rng.uniform(0.3, 0.7), room[1] - rng.uniform(1.2, 1.8), rng.uniform(0.2, 0.6)])
    view = _rotations(rng.uniform([-0.45, -0.35, -0.06], [0.45, 0.05, 0.06])[None])[0]  # room from camera
    turn, scale, centre = _solids(rng, room)
    to_local = np.swapaxes(turn, 1, 2) @ view / scale[:, :, None]
    offset = (np.swapaxes(turn, 1, 2) @ (camera - centre)[:, :, None])[:, :, 0] / scale
    empty = np.concatenate([[False], rng.random(PANELS + THINGS) > SHARE_PRESENT])
    offset[empty] = (-to_local @ NOWHERE)[empty]
    lamp = room * rng.uniform([0.25, 0.1, 0.15], [0.75, 0.3, 0.7])
    tint = rng.uniform([0.85, 0.8, 0.7], 1.0) * rng.uniform(0.75, 1.25)
    return Layout(
        to_local=to_local,
        offset=offset,
        label=_labels(rng),
        material=_materials(rng, scale),
        light=np.concatenate([(lamp - camera) @ view, tint, np.array([0.0, -1.0, 0.0]) @ view]),
    )


def _rotations(angles: Array) -> Array:
    """Return turns about z (roll), then x (pitch), then y (yaw), from angles `n x 3` in the order yaw, pitch, roll."""
    (cy, cp, cr), (sy, sp, sr) = np.cos(angles).T, np.sin(angles).T
    rows = [
        [cy * cr + sy * sp * sr, sy * sp * cr - cy * sr, sy * cp],
        [cp * sr, cp * cr, -sp],
        [cy * sp * sr - sy * cr, sy * sr + cy * sp * cr, cy * cp],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _solids(rng: np.random.Generator, room: Array) -> tuple[Array, Array, Array]:
    """Return rotation, half sizes and centre of every solid in the frame of the room."""
    panel_scale, panel_centre = _panels(rng, room)
    angles = rng.uniform(-np.pi, np.pi, (THINGS, 3))
    angles[rng.random(THINGS) >= SHARE_TUMBLED, 1:] = 0.0
    turn = _rotations(angles)
    scale = rng.uniform([0.2, 0.2, 0.2], [0.6, 0.8, 0.6], (THINGS, 3))
    scale[BOXES:, 2] = scale[BOXES:, 0]  # round from above
    along = np.abs(turn[:, 1] * scale)  # how far each local axis reaches down
    reach = np.sqrt((along**2).sum(axis=1))  # of an ellipsoid
    reach[:BOXES] = along[:BOXES].sum(axis=1)
    reach[-CYLINDERS:] = along[-CYLINDERS:, 1] + np.hypot(along[-CYLINDERS:, 0], along[-CYLINDERS:, 2])
    raised = np.maximum(room[1] - 2 * reach, 0.0) * rng.random(THINGS) * (rng.random(THINGS) < SHARE_RAISED)
    spots = _spots(rng, room)
    centre = np.stack([spots[:, 0], room[1] - reach - raised, spots[:, 1]], axis=1)
    return (
        np.concatenate([np.broadcast_to(np.eye(3), (1 + PANELS, 3, 3)), turn]),
        np.concatenate([room[None] / 2, panel_scale, scale]),
        np.concatenate([room[None] / 2, panel_centre, centre]),
    )


def _spots(rng: np.random.Generator, room: Array) -> Array:
    """Return places on the floor, each in a cell of its own, before the camera."""
    cells = rng.permutation(12)[:THINGS]
    column, row = cells % 4, cells // 4
    x = (column + rng.uniform(0.2, 0.8, THINGS)) / 4 * (room[0] - 1.0) + 0.5
    z = (row + rng.uniform(0.1, 0.9, THINGS)) / 3 * (room[2] - 2.7) + 2.2
    return np.stack([x, z], axis=1)


def _panels(rng: np.random.Generator, room: Array) -> tuple[Array, Array]:
    """Return half sizes and centres of windows and pictures: thin boxes, one on the far wall, one on each side wall."""
    width, height = rng.uniform([0.4, 0.35], [1.0, 0.6], (PANELS, 2)).T
    y = rng.uniform(height + 0.2, room[1] - height - 0.9)
    along = rng.random(PANELS)
    side = rng.permutation(PANELS)  # 0 is the far wall, 1 the left and 2 the right one
    far = (side == 0)[:, None]
    thin = np.full(PANELS, 0.02)
    scale = np.where(far, np.stack([width, height, thin], axis=1), np.stack([thin, height, width], axis=1))
    on_far = np.stack([width + along * (room[0] - 2 * width), y, np.full(PANELS, room[2])], axis=1)
    on_side = np.stack([room[0] * (side - 1), y, 2.0 + along * (room[2] - width - 2.0)], axis=1)
    return scale, np.where(far, on_far, on_side)


def _labels(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    counts = [1, 1, 1, WINDOWS, PICTURES, BOXES, ELLIPSOIDS, CYLINDERS]
    label = np.repeat(np.arange(len(CLASSES)), counts)
    left_out = rng.random(THINGS) < SHARE_UNLABELLED
    label[-THINGS:][left_out] = UNLABELLED
    return label


def _materials(rng: np.random.Generator, scale: Array) -> Array:
    """Return two colours, two waves, their phases, warp, hardness, crossing, contrast, gloss, glow: `surface x 20`."""
    colours = _colours(rng)
    straight = rng.random(SURFACES) < 0.6  # checks and stripes along the axes
    waves = _waves(rng, straight, scale)
    phase = rng.uniform(0.0, 1.0, (SURFACES, 2))
    warp = np.where(straight, 0.0, rng.uniform(0.0, 0.8, SURFACES))
    hard, crossed = (rng.random((2, SURFACES)) < 0.5).astype(float)
    contrast = rng.uniform(0.1, 1.0, SURFACES)
    contrast[[WALL, CEILING]] *= 0.3
    gloss = np.where(rng.random(SURFACES) < 0.5, rng.uniform(0.1, 0.5, SURFACES), 0.0)
    gloss[[WALL, CEILING]] = 0.0
    glow = np.zeros(SURFACES)
    glow[FIRST_PANEL : FIRST_PANEL + WINDOWS] = rng.uniform(0.6, 1.1, WINDOWS)  # daylight
    scalars = np.stack([warp, hard, crossed, contrast, gloss, glow], axis=1)
    return np.concatenate([colours, waves, phase, scalars], axis=1)


def _colours(rng: np.random.Generator) -> Array:
    """Return two colours per surface, `surface x 6`: a pale room, a floor like wood or stone, objects of any colour."""
    light = rng.uniform(0.25, 0.95, SURFACES)
    light[[WALL, CEILING]] = rng.uniform([0.6, 0.85], [0.9, 1.0])
    strength = rng.uniform(0.3, 1.0, SURFACES)
    strength[: FIRST_PANEL + WINDOWS] = rng.uniform([0.1, *[0.0] * (2 + WINDOWS)], [0.5, 0.35, 0.08, *[0.2] * WINDOWS])
    hue = rng.uniform(0.0, 1.0, (SURFACES, 1))
    hue[FLOOR] = rng.uniform(0.02, 0.14)
    wheel = np.clip(np.abs((hue + np.array([0.0, 2 / 3, 1 / 3])) % 1.0 * 6 - 3) - 1, 0, 1)
    first = light[:, None] * (1 - strength[:, None] * (1 - wheel))
    second = np.clip(first * rng.uniform(0.3, 1.1, (SURFACES, 1)) + rng.uniform(-0.1, 0.1, (SURFACES, 3)), 0.02, 1.0)
    return np.concatenate([first, second], axis=1)


def _waves(rng: np.random.Generator, straight: npt.NDArray[np.bool_], scale: Array) -> Array:
    """Return the two wave vectors of the pattern of every surface, in local coordinates, `surface x 6`."""
    wave = rng.normal(0.0, 1.0, (SURFACES, 2, 3))
    wave[straight] = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    wave[FLOOR] = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    period = rng.uniform(0.15, 0.5, (SURFACES, 1, 1))  # metres
    period[:FIRST_PANEL] *= 3  # a room is large
    size = np.concatenate([scale[[0, 0, 0]], scale[1:]])  # floor, walls and ceiling share the room's
    local: Array = wave / period * size[:, None, :]
    return local.reshape(SURFACES, 6)
