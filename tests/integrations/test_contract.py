"""What holds in every framework: one tiny run of each (hosts/), one test for each promise of docs/integrations.md."""

import importlib
import sys

import numpy as np
import pytest
from recording import (
    CRITIC_ALONE,
    SHORTENING,
    Oracle,
    Recorder,
    Scripted,
    assert_equal_bit_for_bit,
    assert_same_state,
    import_afresh,
)

from adept import GaussianThompson
from adept.engine import marked_epochs

VARIANTS = {
    "sb3": ("ppo", "maskable", "recurrent"),
    "sbx": ("ppo",),
    "skrl": ("ppo", "scaled", "ppo-rnn", "rpo", "rpo-rnn"),
    "tianshou": ("ppo", "scaled", "recomputed"),
    "torchrl": ("batch", "optim"),
    "trl": ("grpo", "rloo", "lora"),
    "rsl_rl": ("mlp", "recurrent"),
    "rllib": ("learner",),
}
MODULES = {"sb3": "stable_baselines3", "rllib": "ray.rllib"}
UNJUDGED = {("skrl", "ppo-rnn"), ("skrl", "rpo"), ("skrl", "rpo-rnn")}
"""Updates that are not evaluated at all, or whose policy says something else at each pass (tests/…/test_skrl.py)."""
JAX = {("sbx", "ppo")}
"""Parameters are not copied, and the critic's are not known."""
NO_CRITIC = JAX | {("sb3", "recurrent"), ("rsl_rl", "recurrent"), ("trl", "grpo"), ("trl", "rloo"), ("trl", "lora")}


def hosts(*, one_each=False, also=(), without=frozenset()):
    """Parametrise a test by the frameworks' runs: all variants, or the first of each and those named."""
    found = []
    for name, variants in VARIANTS.items():
        for variant in variants:
            wanted = not one_each or variant == variants[0] or (name, variant) in also
            if wanted and (name, variant) not in without:
                marks = [] if name == "sb3" else pytest.mark.integration
                found.append(pytest.param((name, variant), id=f"{name}-{variant}", marks=marks))
    return pytest.mark.parametrize("host", found, indirect=True)


def required(name):
    """Skip where a framework is not installed."""
    module = MODULES.get(name, name)
    pytest.importorskip(module, reason=f"needs the environment of {name}: make test-integrations", exc_type=ImportError)


@pytest.fixture
def host(request, tmp_path):
    """Return a function that makes a run, in a folder of its own."""
    name, variant = request.param
    required(name)
    cls, made = importlib.import_module(f"hosts.{name}").HOST, []

    def make(*args, **options):
        made.append(tmp_path / str(len(made)))
        made[-1].mkdir()
        return cls(made[-1], variant, *args, **options)

    return make


def known(run, values):
    """Return the part of the values, one for each update, that is in the log when the run ends."""
    return list(values[: len(values) - run.lag])


@hosts()
def test_choices_are_carried_out_credited_and_logged(host):
    run = host(Recorder([3, 1, 2]), updates=5)
    run.run(5)
    recorder = run.engine.rule.scheduler
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [len(rates) for rates in run.rates] == [run.minibatches * epochs for epochs in (3, 1, 2, 3, 1)]
    assert run.own_epochs() == run.epochs, "outside of updates the framework has its own number"
    recorder.assert_credits(run.rewards(5))
    assert run.logged("adept/epochs") == run.logged("adept/epochs_done") == known(run, [3, 1, 2, 3, 1])
    assert run.logged("adept/reward") == pytest.approx(run.rewards(5))
    assert run.logged("adept/arm_choices/3") == [1, 1, 1, 2, 2]
    assert run.logged("adept/arm_share/3")[-1] == pytest.approx(2 / 5)
    assert run.variant != "scaled" or abs(float(run.returns().mean())) < run.rewards(5)[-1] / 5, "as the host sees them"


@hosts()
def test_a_bandits_state_survives_save_and_load(host, tmp_path):
    run = host(GaussianThompson([3, 1, 2], seed=5))
    run.run(2)
    run.save(tmp_path / "saved")
    loaded = host(GaussianThompson([3, 1, 2], seed=6))
    loaded.load(tmp_path / "saved")
    loaded.run(1)
    twin = run.engine.rule.scheduler
    twin.step(loaded.rewards(1)[0])
    assert_same_state(loaded.engine.rule.scheduler, twin)


@hosts(one_each=True)
def test_the_state_of_other_arms_is_refused(host, tmp_path):
    run = host(Recorder([3, 1, 2]))
    run.run(1)
    run.save(tmp_path / "saved")
    other = host(Recorder([3, 1]))
    with pytest.raises((ValueError, RuntimeError), match=r"arms .*'3', '1', '2'.*(drop|del model|load_cfg=)"):
        (other.load(tmp_path / "saved"), other.run(1))


@hosts(without=UNJUDGED)
@pytest.mark.parametrize("given", ["rule", "bandit"])
def test_rates_are_those_of_the_schedule_times_the_scale_whatever_the_epochs(given, host):
    choices = [(3, 1.0), (1, 3.0), (2, 0.5), (3, 1.0)]
    run = host(Scripted(choices) if given == "rule" else Recorder([3, 1, 2]), scheduled=True, updates=4)
    run.run(4)
    for number, (rates, (epochs, lr_scale)) in enumerate(zip(run.rates, choices, strict=True)):
        scheduled = run.schedule(number, epochs * run.minibatches)
        expected = [rate * (lr_scale if given == "rule" else 1) for rate in scheduled]
        np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    if given == "rule":
        assert run.logged("adept/lr_scale") == [1.0, 3.0, 0.5, 1.0]
    known_rates = [row["learning_rate"] for row in run.engine._history]
    assert known_rates == pytest.approx([run.schedule(number, 1)[0] for number in range(4)]), "the advice knows it"


@hosts(without=UNJUDGED)
def test_monitoring_changes_nothing_and_the_estimates_are_those_of_an_oracle(host, capsys):
    plain = host()
    plain.run(4)
    run = host(None, gains_every=1, verbose=1)
    oracle = Oracle(run)
    capsys.readouterr()
    run.run(4)
    assert "rllib" in type(run).__module__ or capsys.readouterr().out.endswith(f"adept: {run.advice}\n")
    oracle.assert_evaluations()
    assert_equal_bit_for_bit((run.everything(), plain.everything()))
    names = ["slope_z", "update_kl", "update_gain", "gain/2", "gain/x2"]
    for name in names:
        assert len([value for value in run.logged(f"adept/{name}") if np.isfinite(value)]) == 3
    assert run.logged("adept/epochs") == known(run, [run.epochs] * 4)
    gains = run.logged(f"adept/gain/{run.epochs}")
    assert gains[-1] == run.logged("adept/update_gain")[-1], "the last epoch is the update"


@hosts(one_each=True, without=JAX)
def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged(host, capsys):
    run = host(None, gains_every=2)
    run.run(3)
    assert run.held == [1, len(marked_epochs((run.epochs,))), 1]
    assert "adept:" not in capsys.readouterr().out


@hosts(one_each=True, without=NO_CRITIC)
def test_a_scale_of_the_critics_own_moves_the_critic_alone(host):
    """Adam moves weights by about their rate in a step: here by a millionth, and the critic's by 0.01."""
    run = host(Scripted(CRITIC_ALONE))
    critic = {id(parameter) for parameter in run.critic}
    others = [each for each in run.optimized() if id(each) not in critic]
    before = [[each.detach().clone() for each in part] for part in (others, run.critic)]
    run.run(1)
    moved = [
        max(float((now.detach() - then).abs().max()) for now, then in zip(part, places, strict=True))
        for part, places in zip((others, run.critic), before, strict=True)
    ]
    assert moved[0] < 1e-4
    assert moved[1] > 1e-3


@hosts(without=UNJUDGED)
def test_a_rule_goes_on_where_it_was_saved(host, tmp_path):
    run = host(SHORTENING)
    run.run(3)
    lr_scale = run.engine.settings.lr_scale
    assert lr_scale < 1
    run.save(tmp_path / "saved")
    loaded = host(SHORTENING)
    loaded.load(tmp_path / "saved")
    loaded.run(1)
    assert loaded.feedback == [None], "the first update after a load is not judged"
    assert loaded.rates[0][: loaded.minibatches] == pytest.approx([run.rate * lr_scale] * loaded.minibatches)
    assert loaded.engine.rule.state_dict() == run.engine.rule.state_dict()


@hosts(without=UNJUDGED | {("skrl", "scaled")})  # in whose first update the scale alone moves the KL: no guard
def test_the_guard_ends_an_update(host):
    run = host(Scripted([(3, 1.0)], kl_stop=1e-12))
    run.run(3)
    done = [len(rates) / run.minibatches for rates in run.rates]
    assert all(0 < epochs <= 1 for epochs in done)
    assert run.logged("adept/epochs") == known(run, [3.0] * 3)
    assert run.logged("adept/epochs_done") == pytest.approx(known(run, done))
    assert run.own_epochs() == run.epochs


@hosts(one_each=True, without=JAX)
@pytest.mark.parametrize("given", [None, "kl-rate"])
def test_parameters_that_were_loaded_are_no_update(given, host, tmp_path):
    """In one process, so that the parameters before the last update are still there."""
    run = host(given)
    run.run(1)
    run.save(tmp_path / "saved")
    run.run(1)
    run.load(tmp_path / "saved")
    run.run(2)
    judged = [feedback is not None for feedback in run.feedback]
    assert judged == [False, True, False, True], "a run that goes on is one run"


@hosts(one_each=True, also=[("torchrl", "optim")], without=JAX | {("trl", "grpo")})  # TRL loads when it trains
@pytest.mark.parametrize("given", [None, "ucb"])
def test_runs_with_and_without_adept_load_each_others_checkpoints(given, host, tmp_path):
    """Of both of TorchRL's formats; one of a run with a bandit is also taken by a run that is only advised."""
    plain, run = host(), host(given)
    plain.run(2)  # further than the run that loads it: RLlib keeps weights that are not older than those of a state
    plain.save(tmp_path / "plain")
    run.run(1)
    state = run.engine.state_dict()
    run.load(tmp_path / "plain")
    assert_equal_bit_for_bit((run.everything(), plain.everything()))
    assert run.engine.state_dict() == state
    run.run(1)
    told = run.feedback[-1]
    assert told is None or not told.slope.known, "the way to the loaded parameters is no update"
    run.save(tmp_path / "adept")
    other = plain if given is None else host(None)
    other.load(tmp_path / "adept")
    assert_equal_bit_for_bit((other.everything(), run.everything()))


@hosts(one_each=True)
def test_an_evaluation_that_fails_does_not_end_the_training(host):
    plain = host()
    plain.run(3)
    run = host(None)
    run.engine.choose_rows = lambda *_: 1 / 0
    with pytest.warns(RuntimeWarning, match="training goes on unchanged: ZeroDivisionError: division by zero") as told:
        run.run(3)
    assert sum("training goes on" in str(each.message) for each in told) == 1
    assert_equal_bit_for_bit((run.everything(), plain.everything()))
    assert "Evaluation stopped at update 1: ZeroDivisionError: division by zero." in str(run.advice)
    failing = host("hindsight")
    failing.engine.choose_rows = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        failing.run(3)


@hosts(one_each=True)
def test_rows_beyond_the_limit_are_left_out(host):
    run = host(None, gains_every=1, rows=5)
    run.run(2)
    assert run.evaluated[-1] == 5
    assert run.feedback[-1].slope.known


@hosts(one_each=True, without={("sb3", "ppo"), ("rllib", "learner")} | JAX)  # where nothing is attached to
def test_a_second_scheduler_is_refused(host):
    with pytest.raises(ValueError, match="one is allowed"):
        host(None).attach([3, 1, 2])


PACKAGES = {
    "sb3": ("stable-baselines3", "2.3.2", "3.0.0", ">=2.4,<3"),
    "sbx": ("sbx-rl", "0.27.0", "0.29.0", ">=0.28,<0.29"),
    "skrl": ("skrl", "1.4.3", "2.2.0", ">=2.1,<2.2"),
    "tianshou": ("tianshou", "1.2.0", "2.1.0", ">=2.0,<2.1"),
    "torchrl": ("torchrl", "0.9.2", "0.15.0", ">=0.14,<0.15"),
    "trl": ("trl", "0.24.0", "1.17.0", ">=1.16,<1.17"),
    "rsl_rl": ("rsl-rl-lib", "3.1.0", "5.6.0", ">=5.5,<5.6"),
    "rllib": ("ray", "2.10.0", "2.61.0", ">=2.60,<2.61"),
}
each_framework = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "sb3" else pytest.mark.integration) for name in PACKAGES]
)


@each_framework
def test_other_versions_are_refused(name, monkeypatch):
    required(name)
    package, *versions, bounds = PACKAGES[name]
    for version in versions:
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        with pytest.raises(ImportError, match=rf"{package} {version} .*{bounds}: pip install 'adept-rl\[{name}\]'"):
            import_afresh(f"adept.integrations.{name}")


@each_framework
def test_a_missing_framework_names_the_extra(name, monkeypatch):
    required(name)
    parts = MODULES.get(name, name).split(".")
    for length in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:length]), None)
    with pytest.raises(ImportError, match=rf"is not installed.*pip install 'adept-rl\[{name}\]'"):
        import_afresh(f"adept.integrations.{name}")
