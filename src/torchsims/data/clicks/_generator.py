"""Synthetic click logs with the fields of Ali-CCP, which need no download."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data.clicks._log import COMMON, NUMBER, OWN, VALUED, Clicks

Floats = NDArray[np.float64]
Column = NDArray[Any]

CLICKS = 0.04  # fraction of the impressions; 3.4 M of 84 M in Ali-CCP
PURCHASES = 0.08  # fraction of the clicks: 0.3 % of the impressions; Ali-CCP has 0.02 %, too few for a small log
USERS, ITEMS = 50, 20  # mean number of impressions per user and per item
TASTE = 4  # dimensions in which users and items meet
USER_SIZES = dict(zip(COMMON[1:9], (98, 14, 3, 8, 4, 4, 3, 5), strict=True))
ITEM_SIZES = {"206": 60, "207": 300, "210": 120, "216": 200}


def generate_clicks(rows: int, seed: int = 0) -> Clicks:
    r"""Return a synthetic log with the fields of Ali-CCP: clicks are 4 % and purchases 0.3 % of the impressions.

    Users and items have attributes, and tastes that are the sums of effects of their attributes. Where the tastes of a
    user and an item agree, a click is likely; a purchase after a click follows partly the same taste and partly others,
    so that the two tasks are related but not the same.

    .. math::
        P(\text{click}) = \sigma(a + s_1), \quad P(\text{purchase} \mid \text{click}) = \sigma(b + s_2), \quad
        \operatorname{corr}(s_1, s_2) \approx 0.5

    Example:
        >>> log = generate_clicks(100_000)
        >>> float(log.click.mean().round(2)), float(log.purchase.mean().round(3))
        (0.04, 0.003)
    """
    if not rows >= 1:
        raise ValueError(f"Parameter `rows` should be positive. Found `rows = {rows}`.")
    rng = np.random.default_rng(seed)
    users, user_taste = _things(rng, max(20, rows // USERS), USER_SIZES)
    items, item_taste = _things(rng, max(20, rows // ITEMS), ITEM_SIZES)
    user = rng.integers(len(user_taste), size=rows)
    item = rng.zipf(1.3, size=rows) % len(item_taste)  # few items are seen often
    own = {"205": item + 1, **{name: column[item] for name, column in items.items()}}
    common = {"101": np.arange(len(user_taste)) + 1, **users}
    place = rng.integers(1, 4, size=rows)
    agree = user_taste[user] * item_taste[item]  # (row, taste)
    first = agree @ [1.0, 1.0, 0.7, 0.0] + 0.4 * (place == 1)
    second = agree @ [0.6, 0.0, 0.7, 1.2]
    click = _draw(rng, first, CLICKS)
    purchase = click & _draw(rng, second, PURCHASES, click)
    own |= _combinations(rng, own, common, user) | {"301": place}
    common |= _history(rng, user_taste)
    return Clicks(
        click.astype(np.uint8),
        purchase.astype(np.uint8),
        _stored({**{f: own[f] for f in OWN}, **own}),
        _stored({**{f: common[f] for f in COMMON}, **common}),
        user.astype(np.int32),
    )


def _things(rng: np.random.Generator, count: int, sizes: Mapping[str, int]) -> tuple[dict[str, Column], Floats]:
    """Return attributes, with ids from 1, of users or items, and their tastes, `thing x taste`."""
    attributes = {name: rng.integers(1, size + 1, size=count) for name, size in sizes.items()}
    effects = {name: rng.normal(size=(size + 1, TASTE)) for name, size in sizes.items()}
    taste = sum(effects[name][column] for name, column in attributes.items()) / np.sqrt(len(sizes))
    return attributes, np.asarray(taste)


def _draw(rng: np.random.Generator, score: Floats, share: float, among: NDArray[np.bool_] | None = None) -> Column:
    """Return events whose odds grow with the score and whose expected share, among some rows, is the given one."""
    low, high = -30.0, 30.0
    some = score if among is None or not among.any() else score[among]
    for _ in range(50):  # the share rises with the shift
        shift = (low + high) / 2
        low, high = (shift, high) if (1 / (1 + np.exp(-some - shift))).mean() < share else (low, shift)
    return rng.random(len(score)) < 1 / (1 + np.exp(-score - shift))


def _combinations(
    rng: np.random.Generator, own: Mapping[str, Column], common: Mapping[str, Column], user: Column
) -> dict[str, Column]:
    """Return what a user did with the category, shop, brand and intention of an item, for a part of the rows."""
    found: dict[str, Column] = {}
    for field, of in (("508", "206"), ("509", "207"), ("702", "216"), ("853", "210")):
        seen = (own[of] * 31 + common["101"][user]) % 3 == 0  # the same user and attribute always meet or never
        found[field] = np.where(seen, own[of], 0)
        found[NUMBER + field] = np.where(seen, rng.gamma(2.0, 0.5, len(user)), 0.0)
    return found


def _history(rng: np.random.Generator, taste: Floats) -> dict[str, Column]:
    """Return what users did before; it shows one of their tastes each."""
    found: dict[str, Column] = {}
    for field, column in zip(VALUED[:4], taste.T, strict=True):
        found[field] = np.digitize(column, np.linspace(-2, 2, 20)) + 1
        found[NUMBER + field] = np.exp(rng.normal(size=len(taste)))
    return found


def _stored(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: c.astype(np.float32 if name.startswith(NUMBER) else np.int32) for name, c in columns.items()}
