"""Write NYUv2 as the folder that `--data nyuv2` reads, from JPEGs in a zip file and labels in a npz file.

    python bench/nyuv2_convert.py nyuv2_rgb_96x128.zip nyuv2_labels_96x128.npz data/nyuv2_96x128 --picture normals.png

The zip file holds one JPEG per frame, named by its number; the npz file `seg13` (255: unlabelled), `depth8` (metres are
10 / 255 of it) and `is_test`, the official split of 795 and 654 frames. The frames are columns 41 to 601 and rows 45 to
471 of the camera's. There are no normals: they are derived from the depth, whose steps of 3.9 cm are smoothed by a
plane through the pixels around, without those beyond a jump. The picture shows some frames with their labels.
"""

import argparse
import io
import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FOCAL, CENTRE = (518.857901, 519.469611), (325.582245, 253.736166)  # x and y in pixels of the Kinect's 640 x 480
LEFT, TOP, WIDTH, HEIGHT = 41, 45, 560, 426  # the crop
METRES = 10 / 255
REACH = 0.05  # half of the side of a neighbourhood, relative to the width of the image
SAMPLES = 6  # pixels of a neighbourhood to each side
JUMP = 0.05  # relative difference to the depth in the middle beyond which a pixel belongs to another surface
FEWEST = 20  # pixels that a plane goes through

Array = NDArray[np.float64]
DERIVED = "derived from the depth, not measured: a plane through the pixels around that are at a similar depth"


def rays(height: int, width: int) -> tuple[Array, Array]:
    """Return x / z and y / z of what the pixels show, `1 x width` and `height x 1`."""
    columns = LEFT + (np.arange(width) + 0.5) * WIDTH / width
    rows = TOP + (np.arange(height) + 0.5) * HEIGHT / height
    return ((columns - CENTRE[0]) / FOCAL[0])[None], ((rows - CENTRE[1]) / FOCAL[1])[:, None]


def sums_around(depth: Array, dx: float, dy: float) -> tuple[Array, Array, Array]:
    """Return sums over the pixels around that belong to the same surface, with weights that fall with the distance.

    They are the number of these pixels, `height x width`; the weights times 1, x, y, x x, x y, y y, where x and y are
    the distances in the directions of view, `6 x height x width`; and the weights times the inverse depth times x, y,
    1, `3 x height x width`.
    """
    height, width = depth.shape
    step = max(1, round(REACH * width / SAMPLES))
    pad = step * SAMPLES
    offsets = np.arange(-pad, pad + 1, step)
    inverse, known = np.pad(1 / np.maximum(depth, METRES), pad, mode="edge"), np.pad(depth > 0, pad)
    pixels, sums, right = (np.zeros((*count, height, width)) for count in ((), (6,), (3,)))
    for j in offsets:
        of_row, right_of_row = np.zeros((3, height, width)), np.zeros((2, height, width))
        for i in offsets:
            part = np.s_[pad + j : pad + j + height, pad + i : pad + i + width]
            near = inverse[part]
            same = known[part] & (np.abs(depth * near - 1) < JUMP + METRES * near)
            weight = np.exp(-2 * (i**2 + j**2) / pad**2) * same
            pixels += same
            for power, total in enumerate(of_row):
                total += weight * (i * dx) ** power
            right_of_row += [weight * near, weight * near * (i * dx)]
        one, along, along_twice = of_row
        sums += [one, along, j * dy * one, along_twice, j * dy * along, (j * dy) ** 2 * one]
        right += [right_of_row[1], j * dy * right_of_row[0], right_of_row[0]]
    return pixels, sums, right


def normals_of(depth: Array) -> Array:
    """Return unit normals towards the camera, `height x width x 3`; zero where too few pixels are at one depth.

    On the plane n X = D the inverse depth is linear, n (x, y, 1) / D: its least-squares fit is the normal.
    """
    x, y = rays(*depth.shape)
    pixels, (one, sx, sy, sxx, sxy, syy), right = sums_around(depth, x[0, 1] - x[0, 0], y[1, 0] - y[0, 0])
    moments = np.stack([sxx, sxy, sx, sxy, syy, sy, sx, sy, one], axis=-1).reshape(*depth.shape, 3, 3)
    usable = (depth > 0) & (pixels >= FEWEST) & (np.linalg.det(moments) > 0)
    moments[~usable] = np.eye(3)
    slope = np.linalg.solve(moments, right.transpose(1, 2, 0)[..., None])[..., 0]
    normals = -np.stack([slope[..., 0], slope[..., 1], slope[..., 2] - slope[..., 0] * x - slope[..., 1] * y], axis=-1)
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    return np.where(usable[..., None], normals / np.maximum(length, 1e-12), 0.0)


def write_frame(folder: Path, number: int, kinds: dict[str, NDArray[np.generic]]) -> None:
    for kind, array in kinds.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        np.save(folder / kind / f"{number}.npy", array)


def convert(images: Path, labels: Path, root: Path) -> list[NDArray[np.uint8]]:
    """Write every frame; return pictures of some: image, depth, normals side by side."""
    file, shown = np.load(labels), []
    seg, depth8, is_test = file["seg13"], file["depth8"], file["is_test"]
    counts = {"train": 0, "val": 0}
    with zipfile.ZipFile(images) as archive:
        names = {int(Path(name).stem): name for name in archive.namelist() if name.endswith(".jpg")}
        for frame in range(len(is_test)):
            image = np.asarray(Image.open(io.BytesIO(archive.read(names[frame]))).convert("RGB"))
            depth = depth8[frame] * METRES
            normals = normals_of(depth)
            label = np.where(seg[frame] == 255, -1, seg[frame].astype(np.int16)).astype(np.int16)
            split = "val" if is_test[frame] else "train"
            distances, directions = depth.astype(np.float32), normals.astype(np.float32)
            kinds = {"image": image, "label": label, "depth": distances, "normal": directions}
            write_frame(root / split, counts[split], kinds)
            counts[split] += 1
            if frame % 180 == 5:
                shades = [depth[..., None].repeat(3, 2) / 10, (normals * [1, -1, -1] + 1) / 2]
                shown.append(np.hstack([image, *((255 * shade).astype(np.uint8) for shade in shades)]))
    said = {"file": labels.name, "normals": DERIVED, "images": counts}
    (root / "source.json").write_text(json.dumps(said, indent=1))
    print(f"{root}: {counts['train']} images in train, {counts['val']} in val")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("images", type=Path, help="zip file of JPEGs")
    parser.add_argument("labels", type=Path, help="npz file of labels")
    parser.add_argument("root", type=Path, help="folder to write")
    parser.add_argument("--picture", type=Path, help="PNG of some frames to write")
    options = parser.parse_args()
    shown = convert(options.images, options.labels, options.root)
    if options.picture:
        Image.fromarray(np.vstack(shown)).save(options.picture)


if __name__ == "__main__":
    main()
