"""Reports as files: the same bytes from the same records, stale ones found, every name escaped."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic import METHODS, MORE, TASKS, write_study

from adept.report import ReportOptions, build_report, check_report
from adept.report.build import markdown, report_files
from adept.report.curves import to_json
from adept.studies.grid import cell_path
from tests.faults.campaign import hang_limit

pytest.importorskip("matplotlib")

HOSTILE = """</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"'&${x} $y^2$ `|*_"""


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    """The study's report, made once."""
    options = ReportOptions((study,), tmp_path_factory.mktemp("report"), resamples=200)
    return options, build_report(options)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A small study whose title, labels and errors are attacks."""
    directory = tmp_path_factory.mktemp("hostile") / "grid"
    methods = [("fixed-4", f"base {HOSTILE}", *METHODS[0][2:]), ("ucb", HOSTILE, *METHODS[2][2:])]
    write_study(directory, methods, TASKS[:1], [1, 2], iterations=6, states={("ucb", TASKS[0], 2): "failed"})
    status = cell_path(directory, "ucb", TASKS[0], 2) / "status"
    status.write_text(json.dumps({"state": "failed", "error": HOSTILE}))
    text = (directory / "study.toml").read_text().replace('"A made-up study"', json.dumps(HOSTILE))
    (directory / "study.toml").write_text(text)
    return directory


def rows_of(files, name):
    """Return the rows of a CSV among a report's files."""
    return list(csv.DictReader(io.StringIO(files[name].decode())))


@pytest.fixture(scope="module")
def files(report):
    """Every file of the report, as it is on the disk."""
    options, facts = report
    return {name: (options.output / name).read_bytes() for name in facts["files"]}


def test_every_figure_comes_as_png_svg_and_csv_with_a_caption(report, files):
    _, facts = report
    for name, figure in facts["figures"].items():
        assert min(len(files[f"figures/{name}.{ending}"]) for ending in ("png", "svg", "csv")) > 50
        assert re.search(r"n = \d.* seeds? ×", figure["caption"]), name
        assert re.search("moothing", figure["caption"]) or "interval" in figure["caption"], name
    names = set(facts["figures"])
    assert {
        "aggregate-curves", "score-against-compute", "per-task-differences", "aggregates-train", "compute-by-phase",
        "probability-of-improvement", "performance-profile", "learning-curves", "decisions",
        "score-against-compute-by-task",
    } <= names  # fmt: skip
    assert "aggregates-test" not in names  # there are no evaluations


def test_the_csv_beside_a_figure_is_what_it_draws(report, files):
    (row,) = (row for row in rows_of(files, "figures/score-against-compute.csv") if row["method"] == "ucb")
    iqm = next(method["final-score"]["iqm"] for method in report[1]["methods"] if method["name"] == "ucb")
    assert [float(row[name]) for name in ("iqm", "iqm_low", "iqm_high")] == iqm


def test_the_page_shows_the_figures_that_are_written_beside_it(files):
    page = files["report.html"].decode()
    for name in ("score-against-compute", "per-task-differences", "aggregates-train", "decisions"):
        drawn = re.findall(r' d="([^"]{40,})"', files[f"figures/{name}.svg"].decode())
        assert drawn
        for path in drawn:
            assert re.sub(r"\s+", " ", path) in page, name
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page):
        assert max(target) in ids, target


@pytest.mark.slow
def test_ablations_and_test_levels_are_drawn_where_the_study_has_them(tmp_path):
    write_study(tmp_path, [*METHODS[:3], *MORE], TASKS, [1, 2], iterations=6, evaluate=True)
    files, facts = report_files(ReportOptions((tmp_path,), resamples=100))
    assert {"ablation-exploration", "ablation-window", "ablation-arms", "aggregates-test"} <= set(facts["figures"])
    assert {row["group"] for row in rows_of(files, "figures/ablation-arms.csv")} == {"ucb c=1 W=50"}
    methods = {row["method"] for row in rows_of(files, "figures/ablation-exploration.csv")}
    assert methods == {"fixed-4", "ucb", "ucb-c5"}


def test_the_same_records_give_the_same_bytes_which_tell_neither_the_day_nor_the_place(report, files):
    options, _ = report
    for name, content in report_files(options)[0].items():
        assert files[name] == content, name
        assert str(options.directories[0]).encode() not in content, name
        assert b"dc:date" not in content, name


@pytest.fixture
def copied(report, tmp_path):
    """The options of a copy of the report, and its facts, which a test may change."""
    options, facts = report
    shutil.copytree(options.output, tmp_path / "report")
    return ReportOptions(options.directories, tmp_path / "report", resamples=200), json.loads(json.dumps(facts))


@pytest.mark.slow
def test_check_is_silent_on_a_fresh_report_and_names_what_changed(study, copied, tmp_path):
    options, _ = copied
    assert check_report(options) == []
    shutil.copytree(study, tmp_path / "study")
    run = cell_path(tmp_path / "study", "ucb", TASKS[0], 1) / "iterations.csv"
    lines = run.read_text().splitlines(keepends=True)
    cells = lines[-1].split(",")
    cells[lines[0].split(",").index("score")] = "0.123"
    run.write_text("".join([*lines[:-1], ",".join(cells)]))
    changed = check_report(replace(options, directories=(tmp_path / "study",)))
    names = {"tables/runs.csv", "report.html", "figures/learning-curves.png"}
    assert {f"{name} no longer follows from the records" for name in names} <= set(changed)
    assert not any("compute-by-phase.csv" in text for text in changed)


@pytest.mark.slow
def test_check_finds_what_is_missing_and_what_is_no_longer_made(copied, tmp_path):
    options, facts = copied
    assert "there is no report to check" in check_report(replace(options, out=tmp_path / "nowhere"))[0]
    (options.output / "figures" / "decisions.svg").unlink()
    facts["files"].append("figures/old.png")
    (options.output / "report.json").write_text(json.dumps(facts))
    assert {"figures/decisions.svg is missing", "figures/old.png is no longer made"} <= set(check_report(options))


@pytest.mark.slow
def test_pictures_of_another_matplotlib_are_judged_by_their_tables(copied):
    options, facts = copied
    del facts["page"]  # the return value names it, the file does not
    facts["made_with"]["matplotlib"] = "0.1"
    (options.output / "report.json").write_text(json.dumps(facts))
    (options.output / "figures" / "decisions.svg").write_text("drawn otherwise")
    assert check_report(options) == []


@pytest.mark.slow
def test_a_new_report_takes_away_what_the_old_one_had_and_nothing_else(study, tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.png").write_bytes(b"old")
    (tmp_path / "figures" / "mine.png").write_bytes(b"mine")
    (tmp_path / "report.json").write_text(json.dumps({"files": ["figures/old.png", "report.json"]}))
    build_report(ReportOptions((study,), tmp_path, resamples=100))
    assert not (tmp_path / "figures" / "old.png").exists()
    assert (tmp_path / "figures" / "mine.png").exists()


def test_facts_are_one_json_value(report):
    _, facts = report
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["winner"] == "ucb"
    assert facts["criterion"] == "final-score"
    assert "PPO (K=4)" in facts["summary"][0]


class Reader(HTMLParser):
    """Collect elements, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_hostile_names_are_text_everywhere(hostile):
    files, _ = report_files(ReportOptions((hostile,), resamples=100))
    page = files["report.html"].decode()
    reader = Reader()
    reader.feed(page)
    assert reader.tags.count("script") == 2  # the data and ours
    assert "img" not in reader.tags
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert HOSTILE in reader.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert data["methods"][1]["label"] == HOSTILE
    assert "<img" not in files["README.md"].decode()
    assert "<img" not in files["figures/learning-curves.svg"].decode()


def test_the_page_asks_for_nothing_from_the_network(files):
    page = files["report.html"].decode()
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    # The one address is the name of SVG's namespace, which is never fetched.
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) == {"http://www.w3.org/2000/svg"}


def test_json_cannot_end_its_script_element():
    text = to_json({"a": "</script><!-- \u2028 &"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!-- \u2028 &"}


def test_markdown_is_escaped():
    assert markdown("a|b <i>*x*</i> [y](z)") == r"a\|b &lt;i>\*x\*&lt;/i> \[y\](z)"


def test_missing_runs_are_on_the_page(files):
    wanted = (">2/3</td>", "FloatingPointError: loss is not finite", "Selected after the fact", "27 of 30 runs are")
    assert [text for text in wanted if text not in files["report.html"].decode()] == []


def test_options_are_checked(study, tmp_path):
    with pytest.raises(ValueError, match="100 or more"):
        ReportOptions((study,), resamples=3)
    with pytest.raises(ValueError, match="--out"):
        _ = ReportOptions((study, tmp_path)).output
    assert ReportOptions((study,)).output == study / "report"


@pytest.mark.parametrize("state", ["interrupted", "missing"])
def test_an_unfinished_study_has_a_report_too(tmp_path, state):
    states = {(method[0], TASKS[0], 1): state for method in METHODS[:3]}
    write_study(tmp_path, METHODS[:3], TASKS[:1], [1], iterations=6, states=states)
    facts = build_report(ReportOptions((tmp_path,), resamples=100))
    assert facts["winner"] is None
    assert "no result over all tasks yet" in facts["summary"][0]
    assert facts["figures"] == {}


@pytest.fixture
def small(tmp_path):
    """The options of the report of a small study."""
    write_study(tmp_path / "study", METHODS[:2], TASKS[:1], [1], iterations=6)
    return ReportOptions((tmp_path / "study",), resamples=100)


@pytest.mark.parametrize("place", ["report", "report/figures"])
def test_a_report_is_not_written_where_a_link_leads(small, tmp_path, place):
    theirs = tmp_path / "theirs"
    build_report(replace(small, out=theirs))
    (theirs / "figures" / "learning-curves.png").write_bytes(b"precious")
    link = tmp_path / "study" / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(theirs / place.partition("/")[2])
    before = {file: file.read_bytes() for file in theirs.rglob("*.*")}
    with pytest.raises(ValueError, match="is a symbolic link"):
        build_report(small)
    assert {file: file.read_bytes() for file in theirs.rglob("*.*")} == before


def test_a_readme_of_the_users_is_not_overwritten(small, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"README.md was not written by a former"):
        build_report(replace(small, out=tmp_path))
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "report.html").exists()


def test_damaged_pictures_and_pipes_are_found_by_a_check(small):
    build_report(small)
    picture = small.output / "figures" / "learning-curves.png"
    picture.write_bytes(picture.read_bytes()[:200])
    assert check_report(small) == ["figures/learning-curves.png no longer follows from the records"]
    picture.unlink()
    os.mkfifo(picture)
    with hang_limit(60.0), pytest.raises(ValueError, match=r"learning-curves.png is not a regular file"):
        check_report(small)


def test_settings_of_matplotlib_in_the_current_folder_change_nothing(small, tmp_path):
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nlines.linewidth: 30\n")
    code = f"""
from pathlib import Path
from adept.report import ReportOptions, build_report
build_report(ReportOptions((Path("study"),), Path({str(tmp_path / "there")!r}), resamples=100))
"""
    source = str(Path(__file__).parent.parent.parent / "src")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": source, "PATH": ""}, check=True)
    build_report(replace(small, out=tmp_path / "here"))
    names = [file.relative_to(tmp_path / "here") for file in (tmp_path / "here").rglob("*.svg")]
    assert names
    assert all((tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes() for name in names)
