"""Figures show the numbers of runs, and cope with runs that diverged."""

import io
import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.finished_runs import METRICS, finished_run, finished_runs
from torchsims.reporting import FrontPanel, Report, heat_maps, metric_against, plot_front
from torchsims.reporting._bars import delta_bars, paired_change
from torchsims.reporting._curves import training_curves, validation_curves, weight_curves
from torchsims.reporting._page import render_page
from torchsims.reporting._pictures import colour_map, predictions
from torchsims.reporting._svg import figure_svg
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run


def _saved(figure: Figure) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, dpi=40)
    return target.getvalue()


@pytest.mark.parametrize(
    ("draw", "title"),
    [
        (training_curves, "seg: training loss"),
        (weight_curves, "seg: share in the step"),
        (validation_curves, "seg: validation miou ↑"),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 12])
def test_curves_cope_with_any_number_of_labels_and_diverged_runs(
    draw: Callable[[list[Run]], Figure], title: str, count: int
) -> None:
    runs = finished_runs([f"method {i}" for i in range(count)], seeds=2, pictures=False)
    runs.append(finished_run("diverged at once", 0, ends=0, pictures=False))
    figure = draw(runs)
    assert len(figure.axes) == len(METRICS)
    assert figure.axes[0].get_title("left") == title
    assert _saved(figure)


def test_curves_cope_with_empty_and_shorter_histories() -> None:
    runs = [Run("EW", RunConfig(), {}, {}, History()), finished_run("EW", 1, epochs=3, pictures=False)]
    for some in (runs[:1], runs):
        assert _saved(training_curves(some))
        assert _saved(validation_curves(some))


def test_a_curve_is_the_mean_and_a_cross_marks_where_a_run_diverged() -> None:
    runs = [finished_run("EW", 0, pictures=False), finished_run("EW", 1, ends=4, pictures=False)]
    mean, cross = training_curves(runs).axes[0].lines
    losses = np.array([run.history.losses["seg"] for run in runs], dtype=float)
    np.testing.assert_allclose(np.asarray(mean.get_ydata(), dtype=float), np.nanmean(losses, axis=0))
    assert np.asarray(cross.get_xdata()).tolist() == [4]


def test_a_ring_marks_the_selected_epoch_on_the_mean() -> None:
    runs = [finished_run("EW", seed, pictures=False) for seed in range(2)]
    assert all(line.get_marker() != "o" for line in training_curves(runs).axes[0].lines)
    best = [replace(run, config=replace(run.config, select="best"), selected=3 + run.seed) for run in runs]
    mean, rings = validation_curves(best).axes[0].lines
    assert np.asarray(rings.get_xdata()).tolist() == [3, 4]
    np.testing.assert_array_equal(np.asarray(rings.get_ydata()), np.asarray(mean.get_ydata())[2:4])
    words = [text.get_text() for text in validation_curves(best).legends[0].get_texts()]
    assert words == ["EW", "selected epoch"]


def test_a_figure_of_the_page_has_its_texts_and_no_name_twice() -> None:
    runs = finished_runs(["EW", '<b> & "c" #000000', "$x$"], seeds=2)
    names: list[str] = []
    first = figure_svg(training_curves(runs), "A <caption>", "a")
    assert first == figure_svg(training_curves(runs), "A <caption>", "a")
    for text in (first, figure_svg(predictions(runs), "A <caption>", "b")):
        assert text is not None
        root = ElementTree.fromstring(text)
        assert root.attrib["aria-label"] == "A <caption>"
        words = ["".join(element.itertext()).strip() for element in root.iter("text")]
        assert {"EW", "$x$"} <= set(words)
        assert '"c" #000000' in " ".join(words)  # a name is not a colour
        found = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        used = re.findall(r'(?:href="#|url\(#)([\w-]+)', text)
        assert set(used) == set(found)
        names += found
        styles = " ".join(element.attrib.get("style", "") for element in root.iter())
        assert "#000000" not in styles
        assert "#ffffff" not in styles
        assert "DejaVu" not in styles
    assert len(names) == len(set(names))


def test_a_very_large_figure_is_not_drawn_as_svg() -> None:
    figure = Figure()
    figure.subplots().scatter(*np.random.default_rng(0).random((2, 20_000)))
    assert figure_svg(figure, "", "a") is None


def test_predictions_have_a_row_per_label_and_a_column_per_task() -> None:
    runs = finished_runs(["EW", "EW, depth x 100", "SIMS"])
    figure = predictions(runs, sample=1)
    assert len(figure.axes) == (1 + 3) * (1 + len(METRICS))
    assert _saved(figure)
    with pytest.raises(ValueError, match="should hold a run with samples"):
        predictions([finished_run("EW", 0, pictures=False)])


def test_pictures_of_labels_are_grey_where_unknown_and_predictions_are_not() -> None:
    known, grey = np.array([[True, False]]), 0.55
    for truth, found in [
        (np.array([[3, -1]]), np.array([[3, 3]])),
        (np.array([[[2.0, 0.0]]]), np.array([[[2.0, 2.5]]])),
        (np.array([[[0.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]]]), np.ones((3, 1, 2))),
    ]:
        label, prediction, nothing = colour_map(truth, [found, None])
        assert label is not None
        assert prediction is not None
        assert nothing is None
        np.testing.assert_array_equal((label == grey).all(axis=-1), ~known)
        assert not (prediction == grey).all(axis=-1).any()


def test_distances_that_are_all_the_same_or_all_unknown_are_drawn() -> None:
    for truth in (np.full((1, 2, 2), 3.0), np.zeros((1, 2, 2))):
        label, prediction, broken = colour_map(truth, [truth + 1, np.nan * truth], kind="distances")
        assert label is not None
        assert prediction is not None
        assert np.isfinite(label).all()
        assert np.isfinite(prediction).all()
        np.testing.assert_array_equal(broken, np.full((2, 2, 3), 0.55))


def test_a_prediction_of_the_right_direction_looks_right_whatever_its_length() -> None:
    truth = np.array([0.0, 0.6, -0.8]).reshape(3, 1, 1)
    label, same, broken = colour_map(truth, [7 * truth, np.nan * truth])
    assert label is not None
    np.testing.assert_allclose(label[0, 0], [0.5, 0.2, 0.9])
    np.testing.assert_allclose(label, same)  # type: ignore[arg-type]
    np.testing.assert_array_equal(broken, np.full((1, 1, 3), 0.55))


def test_bars_leave_out_no_number_silently() -> None:
    values = {"EW": [0.5, math.nan], "SIMS": [0.25, 0.75], "GLS": [math.nan]}
    (axis,) = delta_bars(values).axes
    assert [bar.get_extents().width > 0 for bar in axis.patches] == [True]
    words = [label.get_text() for label in axis.get_yticklabels()]
    assert words == ["EW\n1 of 2 without a number", "SIMS", "GLS\n1 of 1 without a number"]
    assert _saved(paired_change(values, {"SIMS": [0.5]}, "seg miou"))


@pytest.mark.parametrize(("values", "scale"), [([0.1, 1.0, 10.0], "log"), ([0.0, 0.1, 1.0], "linear")])
def test_a_parameter_with_zero_among_its_values_has_equal_distances(values: list[float], scale: str) -> None:
    curves = {"seg miou": ([0.5, math.nan, 0.6], [0.1, None, 0.1]), "depth abs_err": ([3, 2, 1], [0.1, 0.1, 0.1])}
    figure = metric_against(values, curves, "x")  # type: ignore[arg-type]
    assert [axis.get_xscale() for axis in figure.axes] == [scale] * 2
    assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == [f"{value:g}" for value in values]
    assert _saved(figure)


def test_equal_numbers_have_equal_colours_on_all_maps() -> None:
    for limits in (None, (0.0, 10.0)):
        figure = heat_maps(
            {"a": np.zeros((2, 2)), "b": np.zeros((2, 2))}, ("x", [1, 2]), ("y", [1, 2]), "runs", limits=limits
        )
        norms = [axis.images[0].norm for axis in figure.axes[:2]]
        assert all((norm.vmin, norm.vmax) == (limits or (-0.5, 0.5)) for norm in norms)


def test_points_of_a_front_that_lie_close_share_a_label() -> None:
    values = np.array([[0.0, 10.0], [0.5, 5.0], [0.501, 5.01], [math.nan, 1.0], [1.0, 0.0]])
    for unit in (1.0, 1e6):  # close is relative to the range of a panel
        figure = plot_front([FrontPanel("test", ["a", "b"], unit * values, [False, False])], 1)
        assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2, 3", "5"]
    same = FrontPanel("test", ["a", "b"], np.ones((2, 2)), [False, False])
    assert [text.get_text() for text in plot_front([same], 0).axes[0].texts] == ["1, 2"]
    _saved(figure)


def test_names_in_a_head_can_break_after_underscores_and_stay_escaped() -> None:
    page = render_page(Report("", "", {}, [{"<b>price_per_metre ↑": 1.0}]), {}, {})
    assert "&lt;b&gt;price_<wbr>per_<wbr>metre\u00a0↑</th>" in page


@pytest.mark.parametrize(
    "names", [["seg", "depth", "normals"], ["a long name of a target in dollars"] * 3, ["a_b" * 30] * 3]
)
def test_labels_of_a_heat_map_do_not_cover_each_other(names: list[str]) -> None:
    figure = heat_maps({"": np.eye(3)}, ("", names), ("", names), "cosine")
    _saved(figure)  # places everything
    axis = figure.axes[0]
    for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels]
        slanted = labels[0].get_rotation() == 30  # parallel lines, whose boxes overlap
        assert slanted or not any(a.overlaps(b) for a, b in combinations(boxes, 2))
        assert not any("\n" in label.get_text() for label in axis.get_xticklabels())
    assert axis.get_window_extent().width > 0.2 * figure.get_window_extent().width
