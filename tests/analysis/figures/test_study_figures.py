"""Figures: they show what the records hold, in the user's style, in colours with enough contrast."""

import math
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import shown
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from synthetic import results_of

from analysis.figures import style
from analysis.figures.style import Plot
from analysis.figures.styles import LONGEST, shorts
from analysis.figures.values import draw_costs
from analysis.questions.results import question, variants_table
from analysis.report import study_document


def forest(results):
    return forest_plot({"": results})


def plots(results):
    """The figures of a study that has no further measurements."""
    sections = question(results), metrics.curves(results), cost.question(results)
    return {item.name: item for section in sections for item in section.items if isinstance(item, style.Plot)}


def texts(svg):
    return [
        "".join(node.itertext()).strip()
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_the_forest_has_a_point_for_each_seed_and_the_number_of_each_row(tmp_path):
    results = results_of(tmp_path, statuses={("learned-1d", 1): "diverged"})
    (axes,) = figure("forest", results).axes
    base = np.mean([*results.means.values["none"].values()])
    dots = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) > 1]
    for dot, row in zip(dots, variants_table(results).rows, strict=True):
        finite = [value for value in results.means.values[row.variant].values() if math.isfinite(value)]
        assert sorted(dot.get_xdata()) == pytest.approx(sorted(100 * (value - base) for value in finite), rel=1e-12)
    assert sum(len(dot.get_xdata()) for dot in dots) == 19
    (band,) = axes.patches  # the margin, ±1 point
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((-1, 1))
    numbers = [row["difference from none [interval], points"] for row in shown.rows(variants_table(results))]
    assert [text.get_text().strip() for text in axes.texts] == numbers


@pytest.mark.parametrize(("seeds", "bands", "lines"), [(4, 0, 5), (5, 1, 1)])
def test_below_five_seeds_a_curve_shows_its_runs_instead_of_a_band(tmp_path, seeds, bands, lines):
    results = results_of(tmp_path, seeds=seeds)
    (plot,) = (plot for plot in study_document(results).plots if plot.name == "curves")
    for axes in plot.figure.axes:
        of_variant = [part for part in axes.get_children() if str(part.get_gid()).startswith("v1-curve")]
        assert sum(isinstance(part, PolyCollection) for part in of_variant) == bands
        assert sum(isinstance(part, Line2D) for part in of_variant) == lines
    assert ("Band" in plot.caption) == bool(bands) and ("Thin lines: the runs" in plot.caption) != bool(bands)


def test_a_variant_without_a_result_is_in_no_legend(tmp_path):
    results = results_of(tmp_path, statuses={("learned-2d", seed): "diverged" for seed in range(5)})
    for name in ("curves", "cost"):
        legend = {text.get_text() for text in figure(name, results).legends[0].get_texts()}
        assert legend and not legend & {"learned-2d"}


def cost_figure(results, **costs):
    """The figure of costs in which variants have these numbers of parameters."""
    cost = results.cost.assign(params=pd.Series(costs).reindex(results.cost.index))
    return draw_costs(cost, {"params": "parameters"}, results.means.of_variants, results.study.metric, results.styles)


def test_marks_at_the_same_cost_are_side_by_side(tmp_path):
    results = results_of(tmp_path, accuracy={"none": 0.7, "cpe": 0.8, "alibi-2d": 0.9})
    (axes,) = cost_figure(results, **{"none": 100.0, "cpe": 100.0, "alibi-2d": 200.0}).axes
    first, second, third = (line.get_xdata()[0] for line in axes.lines if line.get_marker() in "Dos")
    assert first < 100 < second and (first + second) / 2 == pytest.approx(100)
    assert second - first == pytest.approx(4) and third == 200  # 4 % of the axis


def test_costs_that_hardly_differ_are_not_enlarged(tmp_path):
    """From 3.11 to 3.16 s: the axis shows at least a tenth of the largest cost."""
    results = results_of(tmp_path, accuracy={"none": 0.7, "cpe": 0.8}, seeds=2)
    (axes,) = cost_figure(results, none=3.11, cpe=3.16).axes
    assert np.ptp(axes.get_xlim()) == pytest.approx(0.316)
    (axes,) = cost_figure(results, none=1.0, cpe=3.16).axes
    assert axes.get_xlim()[0] > 0.5  # costs that differ have their own axis


@pytest.mark.parametrize("name", ["$\\frac{1}{2}$", "<b>&amp;</b>", "_hidden", "a" * 200, "50 % $x_2"])
def test_names_are_shown_as_text(tmp_path, name):
    results = results_of(
        tmp_path,
        accuracy={"none": 0.7, name: 0.9},
        factors={"model.act": ["none", name]},
        levels=lambda v: {"model.act": v},
        seeds=3,
    )
    for plot in study_document(results).plots:
        shown = name if len(name) <= LONGEST else name[:20] + "…" + name[-13:]
        assert shown.replace(" ", "") in "".join(texts(svg(plot.figure))).replace(" ", ""), plot.name


@pytest.mark.parametrize(
    "colour", sorted({*style.PALETTE, *(colour for colour, _ in style.VERDICTS.values())} - {style.INK})
)
def test_colours_have_contrast_with_light_and_dark_pages(colour):
    assert min(shown.contrast(to_rgb(colour), to_rgb(page)) for page in ("#fdfefe", "#14171b")) > 3


def test_a_variant_has_the_same_colour_in_every_figure_of_variants(tmp_path):
    """The forest plot has the colours of the verdicts."""
    results = results_of(tmp_path)
    for index in range(len(results.variants.names)):
        colours = {}
        for plot in study_document(results).plots:
            for part in plot.figure.findobj(lambda artist, i=index: str(artist.get_gid()).startswith(f"v{i}-")):
                if isinstance(part, Line2D) and part.get_alpha() != 0:
                    colours.setdefault(plot.name, set()).add(part.get_color())
        assert len(set.union(*colours.values())) == 1 and colours.keys() == {"curves", "cost"}, colours


def test_long_names_that_differ_in_the_middle_stay_different():
    names = [f"learned-{d}d, every-layer-shared, train_limit = {n}, depth = 8" for d in (1, 2) for n in (1000, 10000)]
    assert len(set(shorts(names))) == len(names)
    assert shorts(["a" * 200, "b"]) == ["a" * 20 + "…" + "a" * 13, "b"]


def test_a_figure_of_very_many_variants_shows_the_first_and_the_last_and_few_have_a_colour(tmp_path):
    """The table has them all."""
    accuracy = {"none": 0.5, **{f"v{number}": 0.3 + number / 1000 for number in range(1, 201)}}
    findings = results_of(tmp_path, accuracy=accuracy, seeds=2, epochs=1, levels=lambda variant: {})
    section = question(findings)
    plot = next(item for item in section.items if isinstance(item, Plot))
    table, names = section.items[0], [label.get_text() for label in plot.figure.axes[0].get_yticklabels()]
    shown = [row.variant for row in table.rows]
    assert names == [*shown[:100], *shown[-100:]] and "the first and the last are drawn" in plot.caption
    coloured = findings.styles.coloured
    assert len(table.data) == 201 and len(coloured) == len(style.PALETTE)
    assert {"none", shown[0], shown[1], shown[-2], shown[-1]} < set(coloured)
