"""Public records: small made-up ones worked out by hand, and the committed tables held to the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from paper.public import page, tables
from paper.public.__main__ import made, main
from paper.public.claims import FOLDER, Public, landscape, load, placebo, public_claims
from paper.verdicts import ANALOGY, CLAIM, DEPENDS, FAILS, HOLDS, NOT_SHOWN

DATA = os.environ.get("ADEPT_PROCGEN_PUBLIC", "")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two games, two runs of four updates; PPG with one row."""
    lines = ["game,run,update,steps,train_return,test_return,approx_kl,clip_fraction,explained_variance"]
    for game, run, returns in (("maze", 0, (0,) * 4), ("maze", 1, (100,) * 4), ("bigfish", 0, (1, 2, 3, 40))):
        lines += [f"{game},{run},{i},{16384 * i},{value},{value / 2},0,0,0" for i, value in enumerate(returns, 1)]
    (tmp_path / tables.PPO_FILE).write_text("\n".join(lines) + "\n")
    ppg = ["game,setting,row,return"]
    ppg += ["maze,e-pi-1,0,4", "maze,e-pi-1,8,10", "bigfish,e-pi-1,0,10", "bigfish,e-pi-1,8,20"]
    (tmp_path / tables.PPG_FILE).write_text("\n".join(ppg) + "\n")
    return tmp_path


def test_records_are_read_run_by_run(records: Path) -> None:
    runs = tables.read_ppo(records)
    assert [(run.game, run.run) for run in runs] == [("maze", 0), ("maze", 1), ("bigfish", 0)]
    assert runs[2].train.tolist() == [1, 2, 3, 40]
    assert runs[2].test.tolist() == [0.5, 1, 1.5, 20]
    assert {key: values.tolist() for key, values in tables.read_ppg(records).items()} == {
        ("e-pi-1", "maze"): [4, 10], ("e-pi-1", "bigfish"): [10, 20],
    }  # fmt: skip


def test_a_folder_without_the_records_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert f"{tables.PPO_FILE} is not there; --data must be a folder with" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / tables.PPO_FILE).write_text("game,run\n")
    with pytest.raises(ValueError, match="has no column train_return, test_return; it has game, run"):
        tables.read_ppo(tmp_path)


def test_scores_are_normalised_by_the_games_range() -> None:
    assert tables.normalised("bigfish", [0, 10, 40], easy=False).tolist() == [0, 0.25, 1]
    assert tables.normalised("bigfish", [1, 40], easy=True).tolist() == [0, 1]
    assert tables.normalised("fruitbot", [-0.5, 27.2], easy=False).tolist() == [0, 1]
    assert set(tables.RANGES) == {str(row["game"]) for row in tables.read_table(FOLDER / "ppo.csv")}


def test_the_end_is_the_last_twentieth() -> None:
    assert tables.end(np.arange(40.0)) == 38.5  # the last two of 40
    assert tables.end(np.arange(4.0)) == 3  # at least one


def test_the_placebo_by_hand(records: Path) -> None:
    rows = tables.placebo_table(tables.read_ppo(records))
    found = {(row["scheduler"], row["size"], row["order"], row["game"], row["run"]): row for row in rows}
    assert len(rows) == len(found) == 2 * len(tables.SIZES) * 2 * 3
    # Returns of 0: the first choice is a tie, then the bonus 5·√(ln t/N) takes every arm once, then a tie again.
    even = found["ucb", 1.0, "recorded", "maze", 0]
    assert [even[f"share_{arm}"] for arm in (3, 2, 1)] == [0.5, 0.25, 0.25]
    # Returns of 100: Q(3) = 100 from the first credit on, the bonus stays below 5·√(ln 4) = 5.9.
    stuck = found["ucb", 1.0, "recorded", "maze", 1]
    assert [stuck[f"share_{arm}"] for arm in (3, 2, 1)] == [1, 0, 0]
    assert (stuck["most"], stuck["favourite"], even["favourite"]) == (1, 3, 3)
    # Equal returns have one order.
    assert found["ucb", 1.0, "random", "maze", 1]["share_3"] == 1


def test_tables_of_scores_by_hand(records: Path) -> None:
    epochs = {row["game"]: row for row in tables.epochs_table(tables.read_ppg(records))}
    assert epochs["maze"]["over_the_run"] == 0.5  # (0 + 1)/2 on the range 4 to 10
    assert epochs["maze"]["at_the_end"] == 1
    assert epochs["bigfish"]["over_the_run"] == 0.375  # (0.25 + 0.5)/2
    (bigfish,) = (row for row in tables.ppo_table(tables.read_ppo(records)) if row["game"] == "bigfish")
    assert (bigfish["train"], bigfish["test"]) == (40, 20)
    assert (bigfish["train_normalised"], bigfish["test_normalised"]) == (1, round(19 / 39, 4))


def test_a_table_comes_back_from_its_text(records: Path, tmp_path: Path) -> None:
    for name, rows in made(records).items():
        (tmp_path / f"{name}.csv").write_text(tables.csv_of(rows))
        assert tables.read_table(tmp_path / f"{name}.csv") == rows


GAMES = ("a", "b", "c", "d")


def public(most: dict[float, float], scores: dict[str, tuple[float, ...]] | None = None) -> Public:
    """Make up tables: the share of U's most-chosen arm by size of rewards, G even, and scores of settings by game."""
    fed: list[tables.Row] = []
    for scheduler in ("ucb", "thompson"):
        for size in tables.SIZES:
            for place, game in enumerate(GAMES):
                share = (most[size] if scheduler == "ucb" else 0.34) + 0.001 * place
                rest = (1 - share) / 2
                for order in ("recorded", "random"):
                    fed.append({
                        "scheduler": scheduler, "size": size, "order": order, "game": game, "run": 0, "favourite": 3,
                        "share_3": share, "share_2": rest, "share_1": rest, "most": share,
                    })  # fmt: skip
    epochs: list[tables.Row] = [
        {"setting": setting, "game": game, "over_the_run": value, "at_the_end": value}
        for setting, values in (scores or {}).items()
        for game, value in zip(GAMES, values, strict=True)
    ]
    return Public(fed, epochs, [])


def test_a_claim_about_the_placebo_has_to_hold_whatever_the_size_of_rewards() -> None:
    always = placebo(public(dict.fromkeys(tables.SIZES, 0.9)))
    assert [claim.verdict for claim in always] == [HOLDS, HOLDS, HOLDS]
    never = placebo(public(dict.fromkeys(tables.SIZES, 0.34)))
    assert [claim.verdict for claim in never] == [FAILS, HOLDS, NOT_SHOWN]
    mixed = placebo(public({1.0: 0.9, 0.3: 0.9, 0.1: 0.34}))
    assert [claim.verdict for claim in mixed] == [DEPENDS, HOLDS, DEPENDS]
    assert "favourite: K=3 in 4, K=2 in 0, K=1 in 0 of 4 runs" in mixed[0].measured
    assert all(claim.kind != CLAIM for claim in mixed), "a control is not counted among the paper's claims"


def test_what_choosing_k_gains_is_held_against_the_best_of_equal_runs() -> None:
    flat = {f"e-pi-{epochs}": (0.4, 0.5, 0.6, 0.7) for epochs in range(1, 7)}
    repeats = {f"ppg-run{run}": (0.4, 0.5, 0.6, 0.7) for run in range(3)}
    value = {"e-aux-1": (0.1, 0.2, 0.3, 0.4), "e-aux-9": (0.3, 0.4, 0.5, 0.61)}
    # On two games K=2 is better by 0.3; three equal runs never differ: the gain is 0.15 on average, by chance 0.
    better = {**flat, "e-pi-2": (0.7, 0.8, 0.6, 0.7)}
    found = public(dict.fromkeys(tables.SIZES, 0.9), {**better, **repeats, **value})
    real, chance = found.headroom()
    assert real.tolist() == pytest.approx([0.3, 0.3, 0, 0])
    assert chance.tolist() == pytest.approx([0, 0, 0, 0])
    assert found.best_epochs() == {"a": 2, "b": 2, "c": 1, "d": 1}
    assert [claim.verdict for claim in landscape(found)] == [NOT_SHOWN, NOT_SHOWN, HOLDS]
    assert {claim.kind for claim in landscape(found)} == {ANALOGY}
    # The best of three runs that differ by ±0.3 gains 0.3 over their mean: more than K does.
    spread = {"ppg-run0": (0.1, 0.2, 0.3, 0.41), "ppg-run1": (0.4, 0.5, 0.6, 0.7), "ppg-run2": (0.7, 0.8, 0.9, 1.0)}
    _, chance = public(dict.fromkeys(tables.SIZES, 0.9), {**better, **spread}).headroom()
    assert chance[:3].tolist() == pytest.approx([0.3, 0.3, 0.3])
    worse = public(dict.fromkeys(tables.SIZES, 0.9), {**flat, **spread, **value})
    assert landscape(worse)[1].verdict == FAILS


def test_the_committed_page_follows_from_the_committed_tables() -> None:
    found = load()
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for block in (page.placebo_block, page.epochs_block, page.gap_block):
        assert block(found) in text, block.__name__
    assert len(public_claims(found)) == 7
    assert len(found.fed("ucb")) == 48


@pytest.mark.skipif(not DATA, reason="ADEPT_PROCGEN_PUBLIC names no folder of the published records")
def test_the_committed_tables_follow_from_the_records() -> None:
    for name, rows in made(Path(DATA)).items():
        assert tables.read_table(FOLDER / f"{name}.csv") == rows, name
