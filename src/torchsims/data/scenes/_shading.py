"""The colour of what the rays meet: patterns, a lamp with shadows and highlights, and daylight from above."""

import torch
from torch import Tensor

from torchsims.data.scenes._raycast import Hits, Vector, dot, lit, unit

GLOSS_SQUARINGS = 5  # a highlight is the cosine to the power 2^5
DARKEST = 1e-6  # roots of zero are slow


def _triangle(x: Tensor) -> Tensor:
    """Return a wave of period 1 between 0 and 1, from additions only."""
    return (2 * (x - x.floor()) - 1).abs()


def _pattern(rows: tuple[Tensor, ...], q: Vector) -> Tensor:
    """Return how much of the second colour shows: stripes, checks, waves or veins."""
    phases, (warp, hard, crossed, contrast) = rows[12:14], rows[14:18]
    other = _triangle(dot((rows[9], rows[10], rows[11]), q) + phases[1])
    wave = _triangle(dot((rows[6], rows[7], rows[8]), q) + phases[0] + warp * other)
    first, second = (wave > 0.5), (other > 0.5) & (crossed > 0.5)
    return contrast * torch.where(hard > 0.5, (first ^ second).to(wave.dtype), wave)


def colour(hits: Hits, to_local: Tensor, offset: Tensor, material: Tensor, light: Tensor) -> Tensor:
    """Return RGB before the noise of the camera, `scene x 3 x pixel`, for the solids, materials and lamp of layouts."""
    columns = material.shape[2]
    index = hits.surface.unsqueeze(1).expand(-1, columns, -1)
    rows = material.transpose(1, 2).gather(2, index).unbind(1)  # scene x pixel each
    lights = light.unsqueeze(-1).unbind(1)  # scene x 1 each
    lamp, tint, up = lights[:3], lights[3:6], (lights[6], lights[7], lights[8])
    point = hits.point
    towards = (lamp[0] - point[0], lamp[1] - point[1], lamp[2] - point[2])
    square = dot(towards, towards)
    beam = unit(towards)
    cosine = dot(hits.normal, beam).clamp(min=0.0)
    seen = lit(hits, to_local, offset, light[:, :3]).to(cosine.dtype)
    direct = 1.5 * seen * cosine / (1 + 0.08 * square)
    ambient = 0.34 + 0.12 * dot(hits.normal, up)
    gaze = unit((-point[0], -point[1], -point[2]))
    shine = dot(hits.normal, unit((beam[0] + gaze[0], beam[1] + gaze[1], beam[2] + gaze[2]))).clamp(min=0.0)
    for _ in range(GLOSS_SQUARINGS):
        shine = shine * shine
    shine = rows[18] * shine * seen
    glow, share = rows[19], _pattern(rows, hits.local)
    channels = []
    for i in range(3):
        surface = rows[i] + share * (rows[3 + i] - rows[i])
        channels.append(surface * (ambient + direct * tint[i] + glow) + shine * tint[i])
    # A square root stands in for the response of a camera: like gamma 2, and fast.
    return torch.stack(channels, dim=1).clamp(DARKEST, 1.0).sqrt()
