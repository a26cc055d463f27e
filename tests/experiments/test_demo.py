"""The demo's order with other seeds: counted from the stored scores."""

from __future__ import annotations

from experiments.demo import seeds

STARTS = seeds.STARTS


def by_start(*scores):
    return dict(zip(STARTS, map(float, scores), strict=True))


def test_the_order_needs_both_small_rates_and_the_worst_start():
    fixed = by_start(30, 60, 200, 240, 150)
    for hindsight, expected in (
        (by_start(190, 200, 190, 200, 140), True),  # behind from the others: that is not the order
        (by_start(190, 59, 210, 250, 200), False),
        (by_start(29, 200, 210, 250, 200), False),
        (by_start(31, 61, 200, 200, 20), False),
    ):
        found = seeds.holds({"fixed": fixed, "hindsight": hindsight})
        assert found["**the order**"] == expected


def test_scores_are_stored_and_read_again(tmp_path):
    scores = {7: {"fixed": by_start(1, 2, 3, 4, 5), "hindsight": by_start(2, 3.25, 4, 5, 6)}}
    (tmp_path / "seeds.csv").write_text(seeds.table(scores))
    found = seeds.read(tmp_path / "seeds.csv")
    assert found[7]["fixed"] == scores[7]["fixed"]
    assert found[7]["hindsight"]["div10"] == 3.2
    assert "| hindsight | 2 (2 to 2) | 3 (3 to 3) |" in seeds.page(found)


def test_the_study_has_other_seeds_than_the_demo():
    own, other = seeds.load_study("demo"), seeds.with_other_seeds()
    assert not {*own.seeds} & {*other.seeds}
    assert other.methods == tuple(method for method in own.methods if not method.name.startswith("ucb."))
    assert (own.base, len(other.seeds)) == (other.base, 10)


def test_the_order_holds_with_nine_of_ten_seeds():
    scores = seeds.read()
    assert tuple(scores) == seeds.SEEDS
    holds = [seeds.holds(methods)["**the order**"] for methods in scores.values()]
    assert sum(holds) >= 0.9 * len(holds)
    assert (seeds.HERE / "README.md").read_text() == seeds.page(scores)
