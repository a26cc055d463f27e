import os
from pathlib import Path

import pytest

pytest.importorskip("ray.rllib", reason="needs the environment of rllib: make test-integrations", exc_type=ImportError)

import ray
import recording
import torch
from hosts.rllib import RLlib
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.tune import register_env
from recording import Counting, Recorder, Scripted, counting_means

from adept.hindsight.estimates import Estimate
from adept.integrations.rllib import advice, attach

pytestmark = [pytest.mark.integration, pytest.mark.ray]

STEPS, RUNNERS, MINIBATCH = 16, 2, 4

on_a_cluster = pytest.mark.usefixtures("cluster")


def means(updates):
    """Return the mean reward of each update: the two runners are 1000 and 2000 above what they count."""
    return [1500 + mean for mean in counting_means(updates, STEPS)]


@pytest.fixture(scope="module")
def cluster(the_only_ray):
    path = os.pathsep.join([str(Path(recording.__file__).parent), os.getcwd(), str(Path(os.getcwd(), "src"))])
    environment = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
    ray.init(address="local", num_cpus=6, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    register_env("counting", lambda context: Counting(context.get("episode", 5), offset=1000 * context.worker_index))
    yield
    ray.shutdown()


def config(*, learners=0, epochs=7, runners=RUNNERS, episode=5, **training):
    sizes = {"train_batch_size_per_learner": STEPS * RUNNERS // max(1, learners), "minibatch_size": MINIBATCH}
    return (
        PPOConfig()
        .environment("counting", env_config={"episode": episode})
        .env_runners(num_env_runners=runners)
        .learners(num_learners=learners, num_gpus_per_learner=0)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .debugging(seed=1)
        .training(gamma=0.0, num_epochs=epochs, **sizes, **training)
    )


def on_learners(algorithm, function):
    return [result.get() for result in algorithm.learner_group.foreach_learner(function)]


def optimiser_steps(learner):
    """Return how many steps Adam has made, as Adam itself counts them, and its learning rate."""
    torch.set_num_threads(1)
    optimizer = learner.get_optimizer()
    state = next(iter(optimizer.state.values()), {"step": 0})
    return int(state["step"]), optimizer.param_groups[0]["lr"]


def train(algorithm, updates):
    """Train; return of each update the steps of each learner's optimiser, and the results of the learners."""
    done, results = [], []
    before = [steps for steps, _ in on_learners(algorithm, optimiser_steps)]
    for _ in range(updates):
        results.append(algorithm.train()["learners"]["__all_modules__"])
        after = [steps for steps, _ in on_learners(algorithm, optimiser_steps)]
        done.append([now - then for now, then in zip(after, before, strict=True)])
        before = after
    return done, results


@on_a_cluster
def test_two_learners_make_the_same_choices():
    algorithm = attach(config(learners=2), Recorder([3, 1, 2])).build_algo()
    done, results = train(algorithm, 4)
    recorders = on_learners(algorithm, lambda learner: learner.engine.rule.scheduler)
    algorithm.stop()
    assert len(recorders) == 2
    for recorder in recorders:
        assert recorder.chosen == [3, 1, 2, 3]
        recorder.assert_credits(means(4))
    assert recorders[0].credits == recorders[1].credits
    # Half of 32 steps for each learner: RLlib plans 4 minibatches of 4 in an epoch.
    assert done == [[12, 12], [4, 4], [8, 8], [12, 12]]
    assert [result["adept/epochs"] for result in results] == [3.0, 1.0, 2.0, 3.0]


def spied(learner):
    """Have a learner keep the rates of its optimiser's steps, its evaluations, and slopes worked out by hand."""
    learner.seen = {"rates": [], "evaluations": [], "z": [], "slopes": [], "lr_scales": []}
    seen, engine, start, begin, rows = learner.seen, learner.engine, [], learner.engine.begin, learner._rows
    (module,) = (module for _, module in learner.module.items())
    module = module.unwrapped()
    batches = []

    def kept(batch):
        batches.append(batch.policy_batches["default_policy"])
        return rows(batch)

    def log_probs(place):
        own = [parameter.detach().clone() for parameter in module.parameters()]
        for parameter, value in zip(module.parameters(), place, strict=True):
            parameter.data.copy_(value)
        with torch.no_grad():
            found = module.forward_train({"obs": batches[-1]["obs"]})["action_dist_inputs"]
        for parameter, value in zip(module.parameters(), own, strict=True):
            parameter.data.copy_(value)
        taken = torch.log_softmax(found, 1).gather(1, batches[-1]["actions"].long()[:, None])
        return taken[batches[-1]["loss_mask"].bool()]

    def begun(*args, **kwargs):
        end = [parameter.detach().clone() for parameter in module.parameters()]
        if start:
            at = [[a + share * (b - a) for a, b in zip(start[-1], end, strict=True)] for share in (1.25, 0.75)]
            advantages = batches[-1]["advantages"][batches[-1]["loss_mask"].bool()]
            seen["slopes"].append(recording.slope_by_hand(log_probs(at[0]), log_probs(at[1]), advantages))
        start.append(end)
        seen["rates"].append([])
        choice = begin(*args, **kwargs)
        seen["lr_scales"].append((choice.epochs, choice.lr_scale))
        seen["evaluations"].append(None if engine.feedback is None else engine.feedback.slope.value)
        seen["z"].append(None if engine.feedback is None else engine.feedback.slope.z)
        return choice

    learner._rows, engine.begin = kept, begun
    learner.get_optimizer().register_step_pre_hook(
        lambda optimizer, *_: seen["rates"][-1].append(float(optimizer.param_groups[0]["lr"]))
    )


def weights(algorithm):
    return algorithm.get_module().state_dict()


@on_a_cluster
def test_an_algorithm_is_monitored_without_a_change_and_prints_its_advice(capsys):
    plain = config(epochs=3, lr=0.01, runners=0).build_algo()
    train(plain, 3)
    own = {name: value.clone() for name, value in weights(plain).items()}
    plain.stop()
    capsys.readouterr()
    algorithm = attach(config(epochs=3, lr=0.01, runners=0), gains_every=1).build_algo()
    algorithm.learner_group.foreach_learner(spied)
    _, results = train(algorithm, 3)
    (seen,) = on_learners(algorithm, lambda learner: learner.seen)
    recording.assert_equal_bit_for_bit((weights(algorithm), own))
    said = f"adept: {advice(algorithm)}\n"
    algorithm.stop()
    assert capsys.readouterr().out.endswith(said)
    assert seen["evaluations"][1:] == pytest.approx(seen["slopes"], rel=1e-3, abs=1e-6)
    assert {"adept/slope_z", "adept/update_gain", "adept/gain/2", "adept/epochs"} < results[-1].keys()


@on_a_cluster
def test_the_lr_scale_multiplies_the_scheduled_rate_and_control_resumes(tmp_path):
    """The rate falls from 0.01 to 0 within ten batches, each four episodes of 8 steps and a row: 9 minibatches of 4."""
    choices = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    settings = config(lr=[[0, 0.01], [10 * STEPS * RUNNERS, 0.0]], runners=0, episode=8)
    algorithm = attach(settings.copy(), Scripted(choices), verbose=0).build_algo()
    algorithm.learner_group.foreach_learner(spied)
    train(algorithm, 2)
    (seen,) = on_learners(algorithm, lambda learner: learner.seen)
    path = algorithm.save_to_path(str(tmp_path))
    algorithm.stop()
    for number, (rates, (epochs, lr_scale)) in enumerate(zip(seen["rates"], choices, strict=False)):
        assert len(rates) == 9 * epochs
        assert rates == pytest.approx([0.01 * (1 - number / 10) * lr_scale] * len(rates))
    resumed = attach(settings, Scripted(choices), verbose=0).build_algo()
    resumed.restore_from_path(path)
    resumed.learner_group.foreach_learner(spied)
    train(resumed, 1)
    (seen,) = on_learners(resumed, lambda learner: learner.seen)
    resumed.stop()
    assert seen["lr_scales"] == [(3, 0.5)]
    assert seen["rates"][0] == pytest.approx([0.01 * (1 - 2 / 10) * 0.5] * 27)


@on_a_cluster
def test_two_learners_have_one_choice_and_one_lr_scale():
    """Each learner judges rows of its own; what they see differs, what they choose does not, guard included."""
    algorithm = attach(
        config(learners=2, lr=0.01, runners=0, episode=8), recording.SHORTENING, verbose=0, gains_every=1
    ).build_algo()
    algorithm.learner_group.foreach_learner(spied)
    done, results = train(algorithm, 4)
    first, second = on_learners(algorithm, lambda learner: learner.seen)
    states = on_learners(algorithm, lambda learner: learner.engine.state_dict())
    algorithm.stop()
    assert first["lr_scales"] == second["lr_scales"]
    assert first["rates"] == second["rates"]
    assert states[0] == states[1]
    assert first["lr_scales"][-1][1] < first["lr_scales"][0][1] == pytest.approx(0.1), "it begins at 0.001"
    assert first["slopes"] != second["slopes"], "their rows are not the same"
    means = [(mine + others) / 2 for mine, others in zip(first["slopes"], second["slopes"], strict=True)]
    for seen in (first, second):
        assert seen["evaluations"][1:] == pytest.approx(means, rel=1e-3, abs=1e-6)
        assert max(map(abs, seen["slopes"])) > 1e-4, "a slope that says something, of steps at a rate of 0.001"
        assert [result["adept/slope_z"] for result in results[1:]] == pytest.approx(seen["z"][1:])
    assert [result["adept/epochs_done"] % 1 for result in results] == [0.0] * 4
    assert all(mine == others for mine, others in done)


@on_a_cluster
def test_the_guard_ends_the_update_of_two_learners_together():
    guarded = Scripted([(3, 1.0)], kl_stop=1e-9)
    algorithm = attach(config(learners=2, lr=0.01, runners=0, episode=8), guarded, verbose=0).build_algo()
    done, results = train(algorithm, 2)
    algorithm.stop()
    assert done == [[4, 4], [4, 4]]
    assert [result["adept/epochs"] for result in results] == [3.0, 3.0]
    assert all(result["adept/epochs_done"] <= 1.0 for result in results)


@pytest.mark.parametrize(("planned", "ends"), [(0, [11, 21]), (31, [11, 21]), (5, [2, 4])])
def test_epochs_of_uneven_batches_are_whole(planned, ends, tmp_path):
    """41 rows in minibatches of 4: three epochs are 124 rows. Of 5 planned minibatches an epoch is 5/3."""
    run = RLlib(tmp_path, "learner", None, gains_every=1, settings={"rows": 41, "planned": planned})
    after = []
    run.after_steps(lambda *_: after.append(run.take()))
    run.run(1)
    assert len(after) == (planned or 31)
    assert (run.logged("adept/epochs"), run.logged("adept/epochs_done")) == ([3.0], [3.0])
    marked = run.engine._evaluator.marked
    assert sorted(marked) == [1, 2]
    for epoch, step in zip((1, 2), ends, strict=True):
        recording.assert_equal_bit_for_bit(([copy for _, copy in marked[epoch]], after[step - 1]))


def test_one_minibatch_may_be_an_epoch(tmp_path):
    run = RLlib(tmp_path, "learner", None, gains_every=1, settings={"minibatch": 40})
    oracle = recording.Oracle(run)
    run.run(4)
    oracle.assert_evaluations()


def test_the_guards_divergence_is_that_of_the_rows_in_the_batch(tmp_path):
    """RLlib shuffles the batch in place; mean[r - 1 - ln r] is of each row's own log-probabilities."""
    run = RLlib(tmp_path, "learner", Scripted([(3, 1.0)], kl_stop=10.0))
    seen, expected, stops = [], [], run.engine.stops

    def spy(kl):
        seen.append(kl)
        change = (run.log_probs() - run.columns["action_logp"]).double()
        expected.append(float((change.exp() - 1 - change).mean()))
        return stops(kl)

    run.engine.stops = spy
    run.run(1)
    assert seen == pytest.approx(expected, rel=1e-3)
    assert len(seen) == 2


def test_an_update_after_a_failed_one_is_made_with_its_own_batch(tmp_path, monkeypatch):
    run = RLlib(tmp_path, "learner", None)

    def failure(*_, **__):
        raise RuntimeError("no choice")

    with monkeypatch.context() as patched:
        patched.setattr(run.engine, "begin", failure)
        with pytest.raises(RuntimeError, match="no choice"):
            run.run(1)
    seen = []
    monkeypatch.setattr(run.learner, "_update", lambda batch: seen.append(batch) or ({}, {}, {}))
    run.run(1)
    own = {tuple(row) for row in run.columns["obs"].tolist()}
    assert {tuple(row) for batch in seen for row in batch["default_policy"]["obs"].tolist()} == own


def test_the_slope_of_several_learners_is_logged_as_a_rule_is_given_it(tmp_path, monkeypatch):
    """Errors of a mean fall as the root of n, and the degrees of freedom add up."""
    run = RLlib(tmp_path, "learner", None, gains_every=1)
    run.run(2)
    learner, before = run.learner, run.engine.feedback
    monkeypatch.setattr(type(learner), "distributed", True)
    monkeypatch.setattr(learner, "_summed", lambda values: [4 * value for value in values])  # four that see the same
    run.engine.feedback = pooled = learner._pooled(before)
    for name in ("slope", "critic_slope", "update_gain"):
        mine, all_four = getattr(before, name), getattr(pooled, name)
        expected = pytest.approx(mine.value), pytest.approx(mine.error / 2), pytest.approx(4 * mine.freedom)
        assert all_four == Estimate(*expected)
    assert (pooled.kl, pooled.epochs_done, pooled.stopped) == (pytest.approx(before.kl), 3, False)
    assert set(pooled.gain_by_epoch) == set(before.gain_by_epoch)
    assert set(pooled.gain_by_length) == {0.5, 1.5, 2.0}
    learner.after_gradient_based_update(timesteps={})
    logged = run.numbers(learner.metrics.reduce()["__all_modules__"])
    assert logged["adept/slope_z"] == pytest.approx(pooled.slope.z)
    assert logged["adept/update_gain"] == pytest.approx(before.update_gain.value)
    monkeypatch.setattr(learner, "_summed", lambda values: [0.0 * value for value in values])
    assert learner._pooled(None) is None


def test_other_algorithms_are_refused():
    with pytest.raises(ValueError, match=r"got APPOConfig, .*PPOConfig .*is needed: build one"):
        attach(APPOConfig())


def test_the_old_api_stack_is_refused():
    old = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    with pytest.raises(ValueError, match=r"old API stack .*leave out config.api_stack"):
        attach(old)


def test_a_learner_class_that_takes_no_scheduler_is_refused():
    class Own(PPOTorchLearner):
        pass

    with pytest.raises(ValueError, match=r"learner class is Own, .*derive it from"):
        attach(PPOConfig().learners(learner_class=Own))
