"""Runs what the READMEs show: their commands, files and code, with fewer epochs and seeds."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from commands import MODULES, ROOT, run
from pictures import paint
from synthetic import write_study

from experiments.config import SETTINGS

PAGES = ["README.md", *(f"{package}/README.md" for package in ("vit", "experiments", "sweeps", "analysis"))]
OTHERS = [
    "sweeps/tune.md",
    "sweeps/cluster.md",
    ".github/CONTRIBUTING.md",
    "experiments/REFERENCE.md",
    "analysis/reference/README.md",
    "analysis/verdicts/README.md",
]
HEAVY = ("torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "wandb", "optuna")
LIGHT = ("vit-train settings", "vit-sweep run --help", "vit-sweep list", "vit-sweep status position")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in this language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


def shortened(line: str) -> str:
    """A command that trains little: two epochs, two seeds, two trials."""
    line = re.sub(r"--seeds \d+", "--seeds 2", re.sub(r"--trials \d+", "--trials 2", line))
    trains = re.match(r"vit-train (?!data|presets|variants)|vit-sweep (run|tune) ", line)
    if not trains or "--dry-run" in line:
        return line
    return f"{line} --train.epochs 2" + " --tracking off" * ("--tracking" not in line)


def write_files(page: str, folder: Path) -> None:
    """The files that a page shows, the folder of our records, and a folder of images."""
    (folder / "analysis").mkdir()
    (folder / "analysis" / "reference").symlink_to(ROOT / "analysis" / "reference")
    for text in blocks(page, "yaml"):
        (folder / f"{re.search('name: ([a-z]+)', text)[1]}.yaml").write_text(text.replace("seeds: 5", "seeds: 2"))
    for text in blocks(page, "csv"):
        (folder / "runs.csv").write_text(text)
    for text in {*blocks(page, "python"), *blocks("vit/README.md", "python")}:  # README has the study, vit the class
        if kind := re.search(r'@register\("(.*)"\)', text):
            (folder / f"{kind[1].replace('-', '_')}.py").write_text(text)
    paint(folder / "my_images", 12, size=(16, 16))


@pytest.mark.parametrize("page", ["README.md", *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])])
def test_the_commands_of_a_page_run(page, tmp_path):
    """Those of `bash` blocks, in their order; `sh` blocks need data, a server or an account."""
    write_files(page, tmp_path)
    lines = [line.split(" #")[0].strip() for text in blocks(page, "bash") for line in text.splitlines()]
    plugins = [line.partition("=")[2] for line in lines if line.startswith("export VIT_PLUGINS=")]
    environment = {"VIT_PLUGINS": plugins[0]} if plugins else {}
    for line in (line for line in lines if re.match("vit-(train|sweep|report) ", line)):
        command, _, file = shortened(line).partition(" > ")
        status, out, err = run(*shlex.split(command), cwd=tmp_path, WANDB_MODE="offline", **environment)
        assert status == 0, (line, err)
        if file:
            (tmp_path / file).write_text(out)
        for answer in blocks(page, "text") if "runs.csv" in line else ():
            assert " ".join(answer.split()) in " ".join(out.split())
    written = [*tmp_path.glob("runs/*/*/summary.json"), *tmp_path.glob("runs/*/report/report.html")]
    assert written or page == "vit/README.md"


@pytest.mark.parametrize("page", PAGES)
def test_the_python_code_of_a_page_says_what_its_comments_say(page, tmp_path):
    write_files(page, tmp_path)
    for code in blocks(page, "python"):
        _, out, err = run(code, cwd=tmp_path)
        assert out.splitlines() == re.findall(r"print\(.*\)  # (.*)", code), err


@pytest.mark.parametrize("line", [*(f"{name} --help" for name in MODULES), *LIGHT])
def test_help_imports_no_heavy_library(line, tmp_path):
    write_study(tmp_path, seeds=1)
    command, *words = line.split()
    code = (
        f"import sys; sys.argv = {[command, *words]!r}\nfrom {MODULES[command]} import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code\n"
        f"print('heavy:', sorted({set(HEAVY)} & set(sys.modules)))"
    )
    _, out, err = run(code, cwd=tmp_path)
    assert out.splitlines()[-1] == "heavy: []", out + err


@pytest.mark.parametrize("page", [*PAGES, *OTHERS])
def test_commands_on_a_page_have_known_flags(page, tmp_path):
    lines = (ROOT / page).read_text(encoding="utf-8").replace("`", "\n").splitlines()
    found = [line.split(" #")[0] for line in lines if re.search(r"\bvit-(train|sweep|report) .*--", line)]
    assert found or page == "vit/README.md"
    for line in found:
        name, verb = re.search(r"\b(vit-train|vit-sweep|vit-report)(?: ([a-z]+)(?= |$))?", line).groups()
        flags = set(re.findall(r"--[a-z][a-z.-]*", line[line.index(name) :]))
        known = set(re.findall(r"--[a-z][a-z._-]*", help_text(name, verb)))
        assert flags <= known | {f"--{path.replace('_', '-')}" for path in SETTINGS}, line


@cache
def help_text(name: str, verb: str | None) -> str:
    """The help of a command."""
    return run(name, *filter(None, [verb]), "--help")[1]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS])
def test_links_and_paths_on_a_page_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert all(((ROOT / page).parent / link).exists() for link in links), links
    paths = re.findall(r"`((?:vit|experiments|sweeps|analysis|tests|\.ci)/[\w./-]*)`", text)
    assert all((ROOT / path).exists() for path in paths), paths
