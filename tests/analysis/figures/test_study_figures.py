"""Figures: they show what the records hold, in the user's style, in colours with enough contrast."""

import math
from xml.etree import ElementTree

import matplotlib
import pandas as pd
import pytest
import shown
from matplotlib import pyplot
from matplotlib.colors import to_hex, to_rgb
from scipy import stats
from synthetic import results_of

from analysis.figures import style
from analysis.figures.drawing import LONGEST, shorts, styles_of
from analysis.figures.forest import plot_forest
from analysis.figures.values import draw_trials
from analysis.questions import cost, metrics
from analysis.questions.results import forest_plot, forests, question, variants_table
from analysis.write.files import inline, saved
from experiments.errors import UserError
from experiments.metric import Metric


def forest(results):
    return forest_plot({"": results})


def plots(results):
    """The figures of a study that has no further measurements."""
    sections = question(results), metrics.curves(results), cost.question(results)
    return {item.name: item for section in sections for item in section.items if isinstance(item, style.Plot)}


def test_the_forest_has_a_point_for_each_seed_the_number_of_each_row_and_the_margin(tmp_path):
    results = results_of(tmp_path, statuses={("learned-1d", 1): "diverged"}, margin=0.02)
    (axes,) = forest(results).figure.axes
    base = results.means.values["none"].mean()
    dots = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) > 1]
    for dot, row in zip(dots, variants_table(results).rows, strict=True):
        finite = [value for value in results.means.values[row.variant] if math.isfinite(value)]
        assert sorted(dot.get_xdata()) == pytest.approx(sorted(100 * (value - base) for value in finite), rel=1e-12)
    assert sum(len(dot.get_xdata()) for dot in dots) == 19
    numbers = [row["difference from none [interval], points"] for row in shown.rows(variants_table(results))]
    assert [text.get_text().strip() for text in axes.texts] == numbers
    (band,) = axes.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((-2, 2))


@pytest.mark.parametrize("seeds", [4, 5])
def test_a_curve_has_a_band_of_students_intervals_or_from_below_five_seeds_its_runs(tmp_path, seeds):
    results = results_of(tmp_path, accuracy={"none": 0.95, "cpe": 0.5}, spread=0.3, seeds=seeds)
    plot = plots(results)["curves"]
    runs = results.study.curves.query("variant == 'none'").pivot(index="epoch", columns="run", values="val/acc") * 100
    accuracy = [part for part in plot.figure.axes[0].get_children() if str(part.get_gid()).startswith("v0-curve")]
    lines = {part.get_gid(): part for part in accuracy if hasattr(part, "get_ydata")}
    assert lines["v0-curve-0-0"].get_ydata() == pytest.approx(runs.mean(axis=1))
    assert len(lines) == (5 if seeds == 4 else 1) and ("Thin lines: the runs" in plot.caption) == (seeds == 4)
    if seeds == 5:
        (band,) = (part for part in accuracy if part not in lines.values())
        low, high = stats.t.interval(0.95, 4, runs.mean(axis=1), stats.sem(runs, axis=1))
        reached = band.get_paths()[0].vertices[:, 1]
        assert high.max() > 100 and (reached.min(), reached.max()) == pytest.approx((low.min(), 100))


def test_a_variant_has_one_colour_and_without_a_result_no_legend(tmp_path):
    curves = plots(results_of(tmp_path, statuses={("learned-2d", seed): "diverged" for seed in range(5)}))[
        "curves"
    ].figure
    legend = [text.get_text() for text in curves.legends[0].get_texts()]
    for index, name in enumerate(["none", "sinusoidal", "learned-1d", "learned-2d"]):
        parts = curves.findobj(lambda part, i=index: str(part.get_gid()).startswith(f"v{i}-"))
        colours = {to_hex(part.get_color()) for part in parts if hasattr(part, "get_ydata")}
        assert len(colours) == (name in legend) == (name != "learned-2d")


def test_trials_are_filled_hollow_where_stopped_and_large_where_chosen():
    rows = [(0.001, 0.5, "finished"), (0.01, 0.7, "finished"), (0.1, 0.2, "pruned"), (1.0, math.nan, "diverged")]
    trials = pd.DataFrame([*rows, (0.01, 0.7, "chosen")], columns=["x", "y", "status"]).assign(variant="a", tip="tip")
    styles = styles_of({"a": "a", "b": "b"}, "b", {})
    figure = draw_trials(trials, "rate", True, Metric("val/acc"), styles, True)
    (marks,) = figure.axes[0].collections
    assert marks.get_offsets().tolist() == [[0.001, 50], [0.01, 70], [0.1, 20], [0.01, 70]]
    assert list(marks.get_facecolor()[:, 3]) == [1, 1, 0, 1] and marks.get_sizes()[3] > max(marks.get_sizes()[:3])
    (line,) = figure.axes[0].lines
    assert line.get_xydata().tolist() == [[0.001, 50], [0.01, 70]]
    assert figure.tips == {"v0-trials-0": ("a, tip",) * 4}
    other = pd.DataFrame({"x": [0.01, 0.1], "y": [0.61, 0.1], "status": ["chosen", "finished"]}).assign(variant="b")
    both = draw_trials(pd.concat([trials, other]), "rate", True, Metric("val/acc"), styles, True)
    assert both.axes[0].get_ylim()[0] == pytest.approx(58)  # a third of the chosen ones' distance below the lower


@pytest.mark.parametrize("name", ["$\\frac{1}{2}$", "<b>&amp;</b>", "_hidden", "a" * 200, "50 % $x_2"])
def test_names_are_shown_as_text(tmp_path, name):
    levels = {"factors": {"model.act": ["none", name]}, "levels": lambda variant: {"model.act": variant}}
    results = results_of(tmp_path, accuracy={"none": 0.7, name: 0.9}, seeds=3, **levels)
    expected = name if len(name) <= LONGEST else name[:20] + "…" + name[-13:]
    for plot in plots(results).values():
        texts = "".join(ElementTree.fromstring(saved(plot, "svg")).itertext())
        assert "".join(expected.split()) in "".join(texts.split()), plot.name


@pytest.mark.parametrize("look", ["default", "dark_background"])
def test_figures_are_readable_in_the_users_style_which_stays(tmp_path, look):
    results = results_of(tmp_path)
    with pyplot.style.context(look):
        users = dict(matplotlib.rcParams)
        axes, plot = plot_forest(forests({"": results})), plots(results)["curves"]
        page = inline(saved(plot, "svg"), plot)
        assert dict(matplotlib.rcParams) == users
        assert axes.figure.get_figwidth() == 6.5 and pyplot.get_fignums() == [axes.figure.number]
        paper, diamond = axes.figure.get_facecolor(), axes.lines[-1].get_color()
        colours = [diamond, *(text.get_color() for text in (axes.xaxis.label, *axes.texts, *axes.get_yticklabels()))]
        assert all(shown.contrast(to_rgb(colour), to_rgb(paper)) > 7 for colour in colours)
        assert "fill: var(--ink)" in page and to_hex(matplotlib.rcParams["text.color"]) not in page
        pyplot.close("all")


def test_a_forest_is_drawn_on_given_axes(tmp_path):
    results = results_of(tmp_path)
    figure, (left, right) = pyplot.subplots(1, 2)
    assert plot_forest(forests({"": results}), axes=right) is right and len(right.texts) == 4 and not left.texts
    with pytest.raises(UserError, match="2 datasets need a figure of their own"):
        plot_forest(forests({"a": results, "b": results}), axes=left)
    pyplot.close(figure)


@pytest.mark.parametrize(
    "colour", sorted({*style.PALETTE, *(colour for colour, _ in style.VERDICTS.values())} - {style.INK})
)
def test_colours_have_contrast_with_light_and_dark_pages(colour):
    assert all(shown.contrast(to_rgb(colour), to_rgb(paper)) > 3 for paper in ("#fdfefe", "#14171b"))


def test_with_many_variants_only_the_best_and_worst_have_a_colour():
    names = {f"v{index}": f"v{index}" for index in range(20)}
    coloured = styles_of(names, "v9", {name: 0.02 * place for place, name in enumerate(names)}).coloured
    assert len(coloured) == len(style.PALETTE) and {"v0", "v1", "v9", "v18", "v19"} < set(coloured)
    nine = dict(list(names.items())[:9])
    assert styles_of(nine, "v0", {}).coloured == [*nine]  # a colour for each of eight; the baseline needs none


def test_long_names_that_differ_in_the_middle_stay_different():
    names = [f"learned-{d}d, every-layer-shared, train_limit = {n}, depth = 8" for d in (1, 2) for n in (1000, 10000)]
    assert len(set(shorts(names))) == len(names)
    assert shorts(["a" * 200, "b"]) == ["a" * 20 + "…" + "a" * 13, "b"]
