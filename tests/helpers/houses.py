"""A messy table of houses: zip codes, dates, ids, quoted newlines, euros, and three targets that depend on them."""

from pathlib import Path

import numpy as np

ROWS, ZIPS = 2600, 40


def write_houses(path: Path, rows: int = ROWS, seed: int = 0, separator: str = ",", decimal: str = ".") -> Path:
    """Write the table: the price in euros follows zip code and area, days and sale follow zip code and month."""
    rng = np.random.default_rng(seed)
    zips = 1000 + 37 * rng.permutation(ZIPS)  # their order says nothing
    by_zip, demand = rng.normal(size=ZIPS), rng.normal(size=ZIPS)
    place = rng.integers(ZIPS, size=rows)
    area = rng.gamma(9, 12, size=rows)
    listed = np.datetime64("2023-01-01") + rng.integers(0, 900, size=rows)
    month = listed.astype("datetime64[M]").astype(int) % 12
    season = np.cos(2 * np.pi * month / 12)
    price = np.exp(12 + 0.5 * by_zip[place] + 0.6 * np.log(area / 100) + 0.1 * rng.normal(size=rows))
    days = np.exp(3.5 - 0.6 * demand[place] + 0.5 * season + 0.35 * rng.normal(size=rows))
    sold = rng.random(rows) < 1 / (1 + np.exp(-1.6 * demand[place] + 1.2 * season))
    lines = [separator.join(["id", "zip", "listed", "area", "remark", '"price, EUR"', "days", "sold"])]
    for row in range(rows):
        remark = '"quiet,\nsunny"' if row % 7 == 0 else ("" if row % 5 == 0 else f"near no. {rng.integers(9)}")
        euros = f"{price[row]:,.0f} EUR".replace(",", "." if decimal == "," else ",")
        euros = f'"{euros}"' if separator in euros else euros
        size = "" if rng.random() < 0.05 else f"{area[row]:.1f}".replace(".", decimal)
        size = f'"{size}"' if separator in size else size
        time = "NA" if rng.random() < 0.1 else f"{days[row]:.0f}"
        fields = [f"H{row:05d}", f"{zips[place[row]]:05d}", str(listed[row]), size, remark, euros, time]
        lines.append(separator.join([*fields, "yes" if sold[row] else "no"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
