"""The report: one safe file that opens with the answer, whose links lead somewhere, made the same way twice and put in
place whole.
"""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import yaml
from scipy import stats
from statsmodels.stats.power import TTestPower
from synthetic import write_study

from analysis.report import tables, write
from analysis.report.headline import answer
from analysis.report.sections import document, warnings
from analysis.results import analyze
from analysis.sources.folder import read_folder
from experiments.errors import UserError
from experiments.presets import preset

HOSTILE = '</title><img src=x onerror="alert(1)"><script>alert(2)</script>'
VOID = {"meta", "link", "br", "img", "input", "hr"}


def findings_of(tmp_path, skip=False, **options):
    return analyze(read_folder(write_study(tmp_path, **options), skip))


class Page(HTMLParser):
    """What a browser would see: ids, links, addresses, tags, text."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.hrefs, self.tags, self.text, self.open = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.hrefs += [given["href"]] if tag == "a" else []
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(found):
    return Page(write.make(document(found))["report.html"].decode())


def test_the_page_is_whole_and_asks_nobody_for_anything(tmp_path):
    page = page_of(findings_of(tmp_path))
    assert page.open == []  # every tag is closed, in order
    for tag, given in page.tags:
        assert "src" not in given or given["src"].startswith("data:")
        if tag in ("link", "use", "image"):
            assert (given.get("href") or given.get("xlink:href")).startswith(("data:", "#"))
    assert not any(part in "".join(page.text) for part in ("@import", "url(http", "fetch("))


def test_every_link_within_the_page_leads_somewhere_and_ids_are_one_of_a_kind(tmp_path):
    page = page_of(findings_of(tmp_path))
    assert len(page.ids) == len(set(page.ids))
    inner = [href[1:] for href in page.hrefs if href.startswith("#")]
    assert set(inner) <= set(page.ids) and {"result", "differences", "methods", "provenance", "runs", "runs-v2"} <= set(
        inner
    )
    drawings = [given for tag, given in page.tags if tag == "use"]
    assert drawings and all(given["xlink:href"][1:] in page.ids for given in drawings)


def test_links_to_records_exist_beside_the_report(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    page = write.write(write.make(document(analyze(read_folder(folder)))), folder / "report")
    outer = [href for href in Page(page.read_text()).hrefs if not href.startswith("#")]
    assert len(outer) == 12 and all((page.parent / href).is_file() for href in outer)


def test_every_figure_has_an_alternative_text(tmp_path):
    page = page_of(findings_of(tmp_path))
    drawings = [given for tag, given in page.tags if tag == "svg"]
    assert len(drawings) == 4 and all(given["role"] == "img" and len(given["aria-label"]) > 40 for given in drawings)


def test_markup_in_names_is_text(tmp_path):
    names = ["none", HOSTILE]
    found = findings_of(
        tmp_path,
        accuracy={"none": 0.7, HOSTILE: 0.9},
        factors={f"model.{HOSTILE}": names},
        levels=lambda v: {"model.act": v},
        seeds=3,
        description=HOSTILE,
        command=f"vit-sweep run {HOSTILE} ```",
        baseline="none",
    )
    files = write.make(document(found))
    page = Page(files["report.html"].decode())
    assert [tag for tag, _ in page.tags if tag == "script"] == ["script"] and not any(
        tag == "img" for tag, _ in page.tags
    )
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    assert any(HOSTILE in text for text in page.text)
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(files["report.md"].decode())
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or []}
    assert not kinds & {"html_block", "html_inline", "link_open"}
    assert next(token.content for token in tokens if token.type == "fence").count(HOSTILE) == 1
    with_names = [name for name in files if HOSTILE in name]
    assert not with_names


def test_the_same_records_give_the_same_bytes(tmp_path):
    first = write.make(document(findings_of(tmp_path / "a")))
    second = write.make(document(findings_of(tmp_path / "somewhere" / "else")))  # made twice, and in another place
    assert first == second and {
        "report.html",
        "report.md",
        "tables/variants.csv",
        "tables/variants.tex",
        "figures/accuracy.svg",
        "figures/accuracy.png",
        "tables/runs.csv",
    } <= set(first)


def test_the_first_sentence_is_the_answer(tmp_path):
    first, second = answer(findings_of(tmp_path))
    assert first.startswith("Compared with none (7") and "sinusoidal, learned-1d and learned-2d are better" in first
    assert "5 seeds" in second


def test_a_study_of_two_factors_is_answered_by_factor(tmp_path):
    cells = {f"depth={d}, head={h}": (d, h) for d in (1, 2) for h in ("logits", "softmax")}
    found = findings_of(
        tmp_path,
        accuracy=dict(zip(cells, (0.80, 0.70, 0.90, 0.70))),
        factors={"model.depth": [1, 2], "model.head": ["logits", "softmax"]},
        levels=lambda v: dict(zip(("model.depth", "model.head"), cells[v])),
    )
    first, second = answer(found)
    assert "“depth=1, head=logits”" in first and "“depth=2, head=logits” is better" in first
    assert (
        "depth matters (p < 0.001): 2 has the highest mean" in second
        and "head matters (p < 0.001): logits has" in second
    )
    assert "the effect of depth depends on head (interaction p < 0.001)" in second
    assert {"factors", "table-effects", "table-interactions", "figure-interaction"} <= set(page_of(found).ids)


@pytest.mark.parametrize("seeds", [4, 5])
def test_what_cannot_be_decided_is_said_with_the_seeds_that_would(seeds, tmp_path):
    found = findings_of(
        tmp_path, accuracy={"none": 0.7, "learned-1d": 0.951, "learned-2d": 0.956}, spread=0.02, seeds=seeds
    )
    compared = found.pairs["learned-1d", "learned-2d"]
    assert compared.verdict == "not enough evidence"
    _, second = answer(found)
    would = (
        f"about {compared.seeds_needed} would."
        if seeds == 5
        else "and are too few to say how many would: take 5 or more."
    )
    assert f"{seeds} seeds cannot decide" in second and second.endswith(would)
    assert "no difference" not in " ".join(answer(found))


def test_equivalence_is_only_said_where_it_is_shown(tmp_path):
    same = {"none": 0.7, "learned-1d": 0.95, "learned-2d": 0.95}
    assert "equivalent" in answer(findings_of(tmp_path / "many", accuracy=same, spread=0.002, seeds=8))[1]
    assert "equivalent" not in answer(findings_of(tmp_path / "few", accuracy=same, spread=0.03, seeds=3))[1]


def test_a_single_seed_gets_no_verdict(tmp_path):
    sentences = " ".join(answer(findings_of(tmp_path, seeds=1)))
    assert "single seed" in sentences and "are better" not in sentences
    assert write.make(document(findings_of(tmp_path / "again", seeds=1)))["report.html"]


@pytest.mark.parametrize(
    "options",
    [
        {"accuracy": {"none": 0.7}},
        {"accuracy": {"none": 0.7, "learned-1d": 0.9}, "statuses": {("none", seed): "diverged" for seed in range(5)}},
        {
            "accuracy": {"none": 0.7, "learned-1d": 0.9},
            "statuses": {("learned-1d", seed): "absent" for seed in range(5)},
        },
        {
            "accuracy": {"none": 0.7, "learned-1d": 0.9},
            "statuses": {("learned-1d", seed): "incomplete" for seed in (1, 2, 3, 4)},
        },
        {"spread": 0.0},
        {"metric": "val/loss", "margin": 0.05},
    ],
    ids=["one variant", "baseline diverged", "one absent", "one pair", "no spread", "a loss"],
)
def test_lopsided_studies_still_report(tmp_path, options):
    files = write.make(document(findings_of(tmp_path, **options)))
    assert not re.search(rb"(?i)\b(nan|inf|none of)\b", files["report.md"])


def test_one_variant_is_answered_with_its_interval(tmp_path):
    first, second = answer(findings_of(tmp_path, accuracy={"none": 0.7}, seeds=3))
    assert "no other variant to compare it with" in first
    assert re.fullmatch(r"The 95 % interval of that mean is \[\d\d\.\d+, \d\d\.\d+\] %\.", second)


def test_a_published_system_alone_is_held_against_its_figure(tmp_path):
    base = preset("pulfer-mnist").model_dump()
    found = findings_of(
        tmp_path,
        name="pulfer-mnist",
        preset="pulfer-mnist",
        base=base,
        accuracy={"sinusoidal": 0.788},
        spread=1e-4,
        seeds=4,
    )
    second = answer(found)[1]
    assert (
        "Published: pulfer-mnist reaches 78.85 % test accuracy. Reproduced: sinusoidal less the published 78.85 % is"
        in second
    )


def test_what_may_have_gone_unseen_is_said(tmp_path):
    found = findings_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.7}, spread=0.05, seeds=5)
    (compared,) = (found.versus[variant] for variant in found.others)
    power = power_of_difference(compared.diff, compared.detectable)
    assert power == pytest.approx(0.8, abs=1e-6)
    assert f"(one of up to {100 * compared.detectable:.3g} points may well go unseen)" in answer(found)[0]


def test_two_seeds_may_miss_anything(tmp_path):
    found = findings_of(
        tmp_path,
        accuracy={"none": 0.5, "learned-1d": 0.5, "cpe": 0.5, "rope-2d": 0.5, "relative": 0.5},
        spread=0.4,
        seeds=2,
    )
    assert "(with so few seeds any difference may go unseen)" in answer(found)[0]


def power_of_difference(diff, truth):
    """Of the two-sided t test at 5 %, from statsmodels; `diff` gives the spread."""
    deviation = (diff.high - diff.value) / stats.t.isf(0.025, diff.n - 1) * diff.n**0.5
    return TTestPower().power(truth / deviation, diff.n, 0.05)


def test_variants_that_share_the_highest_mean_share_the_word(tmp_path):
    kinds = ("none", "learned-1d", "learned-2d", "sinusoidal", "rope-2d", "cpe", "alibi-2d", "relative")
    found = findings_of(tmp_path, accuracy={kind: 0.5 if kind == "none" else 1.0 for kind in kinds}, spread=0, seeds=3)
    table = tables.variants_table(found)
    assert [row[2].mark for row in table.rows] == [""] + ["best"] * 7
    assert "7 of 7 variants are better (by 50.00 points);" in answer(found)[0]
    assert any("is no test" in note for note in tables.comparisons_table(found).notes)


def test_reproducing_names_every_seed_and_the_users_own_file(tmp_path):
    own = {"name": "mine", "factors": {"model.pos_embed": ["none", "cpe"]}, "seeds": 2}
    found = findings_of(tmp_path, seeds=4, command="vit-sweep run my/mine.yaml --seeds 2 --out runs", study=own)
    (section,) = (each for each in document(found).sections if each.id == "reproduce")
    commands, definition = (item.text for item in section.items)
    assert "vit-sweep run my/mine.yaml --seeds 4 --out runs" in commands.splitlines()
    assert definition.startswith("# my/mine.yaml") and yaml.safe_load(definition) == own
    for name in ("report.md", "report.html"):  # a user copies it from there
        page = html.unescape(write.make(document(found))[name].decode())
        (copied,) = re.findall(
            r"^(?:<pre><code>)?(# my/mine\.yaml.*?)\n?(?:```|</code></pre>)", page, re.DOTALL | re.MULTILINE
        )
        assert yaml.safe_load(copied) == own


def test_a_run_that_was_held_up_makes_no_variant_slow_but_is_warned_of(tmp_path):
    study = read_folder(write_study(tmp_path, accuracy={"none": 0.7, "cpe": 0.9}, seeds=5))
    seconds = {("none", 0): 400.0, ("cpe", 3): 12.0, ("cpe", 4): 12.0}  # and 4.0 and 4.1 of all others
    machine = {3: "slow", 4: "slow"}
    runs = study.runs.assign(
        device_seconds=[seconds.get((v, s), d) for v, s, d in study.runs[["variant", "seed", "device_seconds"]].values],
        hardware=[machine.get(s, "fast") if v == "cpe" else "fast" for v, s in study.runs[["variant", "seed"]].values],
        wall_seconds=10.0,
        cohort=5,
    )
    found = analyze(replace(study, runs=runs))
    assert found.cost.loc["none", "device_seconds"] == 4.0 and found.cost.loc["cpe", "device_seconds"] == 4.1
    assert found.cost.loc["cpe", "device_seconds_ratio"] == pytest.approx(
        4.1 / 4.0
    )  # of seeds 0, 1, 2: .01025, 1.025, 1.025
    said = " ".join(warnings(found))
    assert "a run of none took 100.0 times the median" in said and "2 kinds of hardware" in said
    (made,) = (each for each in document(found).sections if each.id == "provenance")
    assert dict(made.items[0].facts)["time"].startswith("20 s of run time")  # ten runs, each a fifth of a cohort's 10 s


def test_a_baseline_that_diverged_is_not_mended_by_seeds(tmp_path):
    lost = {("none", seed): "diverged" for seed in range(3)}
    _, second = answer(findings_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=3, statuses=lost))
    assert second.startswith("All 3 of them ended without a result: more seeds alone will not help")


def test_runs_stopped_for_their_results_are_warned_of(tmp_path):
    lost = {("none", 0): "pruned", ("none", 1): "pruned"}
    found = findings_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=4, statuses=lost)
    assert "2 of 8 runs were stopped early for their results; means are of the others, so they look" in " ".join(
        warnings(found)
    )


def test_no_price_is_put_on_a_loss(tmp_path):
    titles = [
        [c.title for c in tables.cost_table(findings_of(tmp_path / m, metric=m)).columns]
        for m in ("test/acc", "test/loss")
    ]
    assert [sum("a MFLOP" in title or "a device second" in title for title in each) for each in titles] == [2, 0]


def test_lower_is_better_for_a_loss(tmp_path):
    found = findings_of(tmp_path, metric="test/loss", margin=0.05)
    assert found.best == "sinusoidal" and found.versus["sinusoidal"].verdict == "better"
    assert "points" not in " ".join(answer(found))


def test_nothing_finished_is_an_error(tmp_path):
    statuses = {(variant, seed): "absent" for variant in ("none", "learned-1d") for seed in range(2)}
    with pytest.raises(UserError, match="no run has finished yet"):
        findings_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, statuses=statuses)


def test_an_older_report_is_replaced_whole(tmp_path):
    write.write({"report.html": b"old", "tables/gone.csv": b"x"}, tmp_path / "report")
    write.write({"report.html": b"new"}, tmp_path / "report")
    assert (tmp_path / "report" / "report.html").read_bytes() == b"new" and not (
        tmp_path / "report" / "tables"
    ).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_what_vit_report_did_not_write_is_never_deleted(tmp_path):
    write.write({"report.html": b"old"}, tmp_path / "report")
    (tmp_path / "report" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="report/notes.txt: was not written by vit-report"):
        write.write({"report.html": b"new"}, tmp_path / "report")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="other/thesis.tex"):
        write.write({"report.html": b"new"}, tmp_path / "other")
    assert (tmp_path / "report" / "report.html").read_bytes() == b"old" and (tmp_path / "other" / "thesis.tex").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "report"]


def test_a_report_that_the_user_has_edited_is_not_overwritten(tmp_path):
    write.write({"report.html": b"old", "report.md": b"old"}, tmp_path / "report")
    (tmp_path / "report" / "report.md").write_text("old, and my notes")
    with pytest.raises(UserError, match="report/report.md: was changed since vit-report wrote it"):
        write.write({"report.html": b"new", "report.md": b"new"}, tmp_path / "report")
    assert (tmp_path / "report" / "report.md").read_text() == "old, and my notes"


def test_a_warning_where_settings_were_not_held_fixed(tmp_path):
    found = findings_of(tmp_path, levels=lambda v: {"model.pos_embed": v, "optim.lr": 0.01 if v == "none" else 0.001})
    assert any("optim.lr was not held fixed: 0.01 and 0.001" in text for text in page_of(found).text)


def test_skipped_records_are_named_in_the_page(tmp_path):
    folder = write_study(tmp_path)
    file = folder / "v1-s2" / "config.json"
    file.write_text(file.read_text() + " ")
    page = page_of(analyze(read_folder(folder, skip_unreadable=True)))
    said = "".join(page.text)
    assert "1 unreadable" in said and "v1-s2/config.json: does not match the digest" in said


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROBE = """<script>addEventListener("load", () => {
  const table = document.querySelector("#table-variants"), head = table.tHead.rows[0].cells[2];
  head.querySelector("button").click();
  const column = [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
  document.body.dataset.probe = JSON.stringify({wide: document.documentElement.scrollWidth - innerWidth, column,
    drawn: [...document.querySelectorAll("figure svg")].filter((svg) => svg.getBoundingClientRect().height > 50).length});
});</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: chromium)")
def test_in_a_browser_it_fits_a_phone_sorts_and_shows_every_figure(tmp_path):
    folder = write_study(tmp_path)
    html = write.make(document(analyze(read_folder(folder))))["report.html"].decode()
    (tmp_path / "page.html").write_text(html.replace("</body>", PROBE))
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=500,900",
        "--enable-logging=stderr",
        "--dump-dom",
        f"file://{tmp_path / 'page.html'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (body,) = [given for tag, given in Page(done.stdout).tags if tag == "body"]
    seen = json.loads(body["data-probe"])
    assert seen["wide"] <= 0 and seen["drawn"] == 4
    assert seen["column"] == ["none", "learned-1d", "learned-2d", "sinusoidal"]  # by accuracy, lowest first
    assert "CONSOLE" not in done.stderr
