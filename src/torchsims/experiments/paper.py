"""Architectures in the paper's tables, as printed, beside those trained here."""

from collections.abc import Mapping, Sequence

from torchsims.registry import Spec
from torchsims.reporting import Row

COLUMNS = {
    "nyuv2": (
        *("seg miou", "seg pixel_accuracy", "depth abs_err", "depth rel_err", "normals mean", "normals median"),
        *("normals within_11.25", "normals within_22.5", "normals within_30", "Delta_b"),
    ),
    "cityscapes": ("seg miou", "seg pixel_accuracy", "depth abs_err", "depth rel_err", "Delta_b"),
    "pascal": ("seg miou", "parts miou", "saliency miou", "normals mean", "Delta_b"),
}
"""Columns of the tables, by data set."""

PER_CENT = ("miou", "pixel_accuracy", "within_11.25", "within_22.5", "within_30", "Delta_b")

PRINTED = {
    "nyuv2": """
        HPS          | 54.48 75.82 0.3839 0.1548 23.50 17.06 35.31 61.10 72.14 0.00
        Cross-Stitch | 53.46 75.49 0.3804 0.1555 23.01 16.33 37.01 62.42 73.02 0.66
        MTAN         | 54.74 75.78 0.3796 0.1549 22.97 16.30 36.91 62.63 73.32 0.77
        NDDR-CNN     | 53.84 75.23 0.3871 0.1560 22.60 16.07 37.67 63.43 73.92 0.91
        VTAGML       | 58.60 78.63 0.3716 0.1525 22.05 15.70 38.14 64.28 74.50 4.70
        DenseMTL     | 56.65 77.68 0.3569 0.1391 22.03 15.87 37.25 64.67 75.47 5.88
        SwinMTL      | 64.23 82.78 0.2841 0.1129 18.94 13.34 43.35 71.32 80.89 19.55
        MultiLoRA    | 64.85 83.07 0.3113 0.1220 17.26 12.19 48.28 74.65 83.58 20.11
        MTSAM        | 65.98 83.42 0.2898 0.1140 16.34 11.33 51.22 77.20 85.51 23.93
    """,
    "cityscapes": """
        HPS          | 67.40 90.92 0.0142 45.4262 0.00
        STL          | 68.13 91.28 0.0133 45.0390 2.17
        Cross-Stitch | 68.01 91.29 0.0135 44.4246 2.11
        MTAN         | 68.97 91.59 0.0136 43.7508 2.74
        NDDR-CNN     | 68.02 91.25 0.0137 44.8662 1.51
        VTAGML       | 73.70 93.23 0.0138 42.8304 5.10
        DenseMTL     | 69.75 91.45 0.0152 52.1401 -4.44
        SwinMTL      | 73.33 92.87 0.0132 38.0720 8.54
        MultiLoRA    | 87.23 96.67 0.0127 31.0091 19.51
        MTSAM        | 87.45 96.80 0.0113 33.0086 20.99
    """,
    "pascal": """
        HPS          | 64.77 57.91 64.10 14.21 0.00
        STL          | 65.14 58.58 65.02 15.94 -2.25
        Cross-Stitch | 64.97 58.63 64.46 15.32 -1.42
        MTAN         | 64.56 59.08 64.57 14.74 -0.33
        NDDR-CNN     | 65.28 59.18 65.09 15.57 -1.26
        MultiLoRA    | 72.39 67.78 71.66 20.07 -0.16
        MTSAM        | 74.13 71.04 76.28 17.10 8.95
    """,
}
"""Name of the architecture, then its numbers; shares and Delta_b, relative to HPS, in per cent."""

NAMES = {  # of an architecture and its adapter: the name in the paper, and the encoder of the original
    "hps": ("HPS", "ResNet-50"),
    "stl": ("STL", "ResNet-50"),
    "crossstitch": ("Cross-Stitch", "ResNet-50"),
    "mtan": ("MTAN", "ResNet-50"),
    "nddr": ("NDDR-CNN", "ResNet-50"),
    "vtagml": ("VTAGML", "Swin-S"),
    "densemtl": ("DenseMTL", "ResNet-101"),
    "swinmtl": ("SwinMTL", "Swin V2-B"),
    "sam2 multilora": ("MultiLoRA", "SAM"),
    "sam2 mtsam": ("MTSAM", "SAM ViT-L"),
}
SIZES = {"nyuv2": "288 x 384", "cityscapes": "128 x 256", "pascal": "512 x 512"}
UNKNOWN = "not known: copied by the paper from another one"


def printed_rows(data: str) -> dict[str, dict[str, float]]:
    """Return the numbers of every architecture in the table of a data set, in our units; nothing for other data.

    Example:
        >>> printed_rows("nyuv2")["HPS"]["seg miou"]
        0.5448
    """
    rows = {}
    for line in PRINTED.get(data, "").strip().splitlines():
        name, numbers = line.split("|")
        pairs = zip(COLUMNS[data], map(float, numbers.split()), strict=True)
        rows[name.strip()] = {key: round(x / 100, 6) if key.split()[-1] in PER_CENT else x for key, x in pairs}
    return rows


def beside_paper(
    data: str, rows: Sequence[Row], models: Mapping[str, str], encoders: Mapping[str, str], size: str
) -> dict[str, list[Row]]:
    """Return a table with the rows of the paper beside ours; nothing if the paper has no table of the data.

    Args:
        data: name of the data set.
        rows: our rows; ``method`` is the label of each.
        models: architecture, by label.
        encoders: encoder, by label; one with a slash is pretrained.
        size: height and width of our images.
    """
    printed = printed_rows(data)
    table: list[Row] = []
    for row in rows if printed else ():
        label = str(row["method"])
        spec = Spec.parse(models[label])
        name, usual = NAMES.get(f"{spec.name} {spec.options.get('adapter', '')}".strip(), (label, "SAM2.1-L"))
        weights = "pretrained" if "/" in encoders[label] else "random"
        settings = f"{weights} {encoders[label]} (usual: pretrained {usual}), {size} (usual: {SIZES[data]})"
        metrics = {key: row[key] for key in COLUMNS[data] if key in row}
        table.append({"architecture": name, "from": label, "encoder and images": settings, **metrics})
        table += [_paper_row(name, printed.pop(name), metrics)] if name in printed else []
    rest = [_paper_row(name, numbers, table[0]) for name, numbers in printed.items() if table]
    return {"Beside the paper": table + rest} if table else {}


def _paper_row(name: str, numbers: Mapping[str, float], known: Mapping[str, object]) -> Row:
    """Return a row of the paper; its Delta_b is over all tasks of the data."""
    some = {key: value for key, value in numbers.items() if key in known}
    if len(some) < len(numbers):
        some.pop("Delta_b", None)
    return {"architecture": name, "from": "paper", "encoder and images": UNKNOWN, **some}
