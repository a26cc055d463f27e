import sys

import pytest

pytest.importorskip("rsl_rl", reason="needs the environment of rsl_rl: make test-integrations")

import torch
from recording import (
    CRITIC_ALONE,
    Lag,
    Recorder,
    Scripted,
    assert_only_the_critic_moves,
    counting_means,
    import_afresh,
    slope_by_hand,
)
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensordict import TensorDict

from adept.integrations.rsl_rl import STATE, attach

pytestmark = pytest.mark.integration

STEPS, ENVS, MINIBATCHES, CONFIGURED, RATE = 8, 4, 2, 3, 0.01


class Counted(VecEnv):
    """The n-th step is rewarded with n in every environment; one environment ends its episode in every step."""

    def __init__(self):
        self.num_envs, self.num_actions, self.max_episode_length = ENVS, 2, 100
        self.episode_length_buf = torch.zeros(ENVS, dtype=torch.long)
        self.device, self.cfg = "cpu", {}
        self._rng, self._life = torch.Generator().manual_seed(3), 0

    def get_observations(self):
        return TensorDict({"policy": torch.randn(ENVS, 3, generator=self._rng)}, batch_size=[ENVS])

    def step(self, actions):
        self._life += 1
        done = torch.arange(ENVS) == self._life % ENVS
        return self.get_observations(), torch.full((ENVS,), float(self._life)), done.long(), {}


def build(log_dir=None, *, recurrent=False, **algorithm):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = {"class_name": "MLPModel", "hidden_dims": [4], "obs_normalization": True}
    if recurrent:
        model |= {"class_name": "RNNModel", "rnn_hidden_dim": 4}
    settings = {"num_learning_epochs": CONFIGURED, "num_mini_batches": MINIBATCHES, "learning_rate": RATE, "gamma": 0.0}
    config = {
        "num_steps_per_env": STEPS,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": {"class_name": "PPO", **settings, **algorithm},
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": model,
    }
    return OnPolicyRunner(Counted(), config, log_dir=log_dir)


def run(runner, updates):
    """Learn; return of each update the learning rates that the optimiser stepped with."""
    rates, update = [], runner.alg.update
    seen = lambda optimizer, *_: rates[-1].append(optimizer.param_groups[0]["lr"])  # noqa: E731
    hook = runner.alg.optimizer.register_step_pre_hook(seen)

    def counted():
        rates.append([])
        return update()

    runner.alg.update = counted
    runner.learn(updates)
    runner.alg.update = update
    hook.remove()
    return rates


def test_epochs_that_run_are_the_choices(recorder):
    runner = attach(build(), recorder, verbose=0)
    done = [len(rates) for rates in run(runner, 5)]
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert done == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]
    assert (runner.alg.num_learning_epochs, runner.alg.schedule) == (CONFIGURED, "adaptive")
    recorder.assert_credits(counting_means(5, STEPS))


def test_a_controller_takes_the_place_of_the_kl_rule():
    """rsl_rl's rule would divide the rate by 1.5 in every minibatch whose KL is above twice its target."""
    plain = run(build(desired_kl=1e-9), 2)
    assert plain[1][-1] < RATE / 1.5**3
    runner = attach(build(desired_kl=1e-9), Scripted([(2, 1.0), (1, 3.0), (3, 0.5)]), verbose=0)
    rates = run(runner, 4)
    expected = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    assert [len(each) for each in rates] == [MINIBATCHES * epochs for epochs, _ in expected]
    for seen, (_, lr_scale) in zip(rates, expected, strict=True):
        assert seen == pytest.approx([RATE * lr_scale] * len(seen))
    assert runner.alg.optimizer.param_groups[0]["lr"] == runner.alg.learning_rate == RATE


def test_the_lr_scale_multiplies_a_rate_that_changes():
    """Somebody sets the learning rate before every update; rsl_rl writes it to the optimiser with its KL rule alone."""
    runner, choices = build(schedule="fixed"), [(2, 1.0), (1, 3.0), (3, 0.5)]
    attach(runner, Scripted(choices), verbose=0)
    for number, (epochs, lr_scale) in enumerate(choices):
        runner.alg.optimizer.param_groups[0]["lr"] = RATE * (1 - number / 4)
        (rates,) = run(runner, 1)
        assert rates == pytest.approx([RATE * (1 - number / 4) * lr_scale] * epochs * MINIBATCHES)
        assert runner.alg.optimizer.param_groups[0]["lr"] == RATE * (1 - number / 4)


@pytest.mark.parametrize("given", [None, "kl-rate"])
def test_the_first_update_after_a_load_is_not_judged(given, tmp_path):
    """In one process, so that the parameters before the last update are still there."""
    runner = attach(build(), given, verbose=0)
    runner.learn(1)
    runner.save(str(tmp_path / "model.pt"))
    runner.learn(2)
    assert runner.adept.engine.feedback is not None
    for load_cfg in (None, {"actor": True, "critic": True}):
        runner.load(str(tmp_path / "model.pt"), load_cfg=load_cfg)
        runner.learn(1)
        assert runner.adept.engine.feedback is None
        runner.learn(1)
        assert runner.adept.engine.feedback is not None


def test_a_rollout_that_cannot_be_judged_does_not_end_the_training(capsys):
    plain = build()
    plain.learn(3)
    runner = attach(build())
    runner.adept._rollout = lambda: 1 / 0
    with pytest.warns(RuntimeWarning, match="training goes on unchanged: ZeroDivisionError: division by zero"):
        runner.learn(3)
    for name, value in plain.alg.actor.state_dict().items():
        assert torch.equal(runner.alg.actor.state_dict()[name], value), name
    assert "Evaluation stopped at update 1: ZeroDivisionError: division by zero." in capsys.readouterr().out


def test_the_advice_is_not_printed_where_it_is_not_wanted(capsys):
    runner = attach(build(), verbose=0)
    runner.learn(2)
    assert "adept:" not in capsys.readouterr().out
    assert "Only 1 update was judged" in str(runner.adept.advice())


def test_with_a_scheduler_the_kl_rule_stays(recorder):
    rates = run(attach(build(desired_kl=1e-9), recorder, verbose=0), 2)
    assert rates[0][-1] < RATE / 1.5**3


def oracle(runner):
    """Return a list that gets a slope, worked out from the storage, for every update but the first."""
    found, start, update = [], [], runner.alg.update
    actor, critic = runner.alg.get_policy(), runner.alg.critic
    lag = Lag(critic.parameters(), lambda: critic(runner.alg.storage.observations), lambda: runner.alg.storage.returns)

    def log_probs(place):
        """Pass one step of all environments after the other, as in the rollout."""
        storage, own = runner.alg.storage, {name: value.clone() for name, value in actor.state_dict().items()}
        actor.load_state_dict({**own, **place})
        columns = []
        with torch.no_grad():
            state = getattr(storage, "saved_hidden_state_a", None)
            state = None if state is None else tuple(each[0].clone() for each in state)
            for step in range(STEPS):
                latent = actor.obs_normalizer(storage.observations["policy"][step])
                if state is not None:
                    if step:
                        ended = storage.dones[step - 1].flatten().bool()
                        state = tuple(torch.where(ended[None, :, None], 0.0, each) for each in state)
                    latent, state = actor.rnn.rnn(latent[None], state)
                    latent = latent[0]
                normal = torch.distributions.Normal(actor.mlp(latent), actor.distribution.std_param)
                columns.append(normal.log_prob(storage.actions[step]).sum(-1))
        actor.load_state_dict(own)
        return torch.stack(columns).numpy()

    def monitored():
        end = {name: value.detach().clone() for name, value in actor.named_parameters()}
        if start:
            at = {share: {n: start[-1][n] + share * (end[n] - start[-1][n]) for n in end} for share in (1.25, 0.75)}
            found.append(slope_by_hand(log_probs(at[1.25]), log_probs(at[0.75]), runner.alg.storage.advantages))
        start.append(end)
        if not critic.is_recurrent:
            lag.step()
        return update()

    runner.alg.update = monitored
    return found, lag


@pytest.mark.parametrize("recurrent", [False, True])
def test_monitoring_changes_nothing_and_the_slope_is_that_of_the_storage(recurrent, capsys):
    plain = build(recurrent=recurrent)
    plain.learn(4)
    runner = attach(build(recurrent=recurrent), gains_every=1)
    (slopes, lag), seen, step = oracle(runner), [], runner.adept.engine.step

    def spied(*args, **kwargs):
        choice = step(*args, **kwargs)
        seen.append(runner.adept.engine.feedback)
        return choice

    runner.adept.engine.step = spied
    capsys.readouterr()
    runner.learn(4)
    assert capsys.readouterr().out.endswith(f"adept: {runner.adept.advice()}\n")
    for mine, own in ((runner.alg.actor, plain.alg.actor), (runner.alg.critic, plain.alg.critic)):
        for name, value in own.state_dict().items():
            assert torch.equal(mine.state_dict()[name], value), name
    assert runner.alg.learning_rate == plain.alg.learning_rate
    assert seen[0] is None
    assert [evaluation.slope.value for evaluation in seen[1:]] == pytest.approx(slopes, rel=1e-3, abs=1e-6)
    assert max(map(abs, slopes)) > 1e-3, "a slope that says something"
    if recurrent:
        assert not any(evaluation.critic_slope.known for evaluation in seen[1:])
    else:
        lag.assert_slopes(seen[1:])
    assert [sorted(evaluation.gain_by_epoch) for evaluation in seen[1:]] == [[1, 2, 3]] * 3
    assert all(evaluation.rows == STEPS * ENVS for evaluation in seen[1:])


@pytest.mark.parametrize("recurrent", [False, True])
def test_rows_beyond_the_limit_are_left_out(recurrent):
    runner = attach(build(recurrent=recurrent), verbose=0, rows=2 * STEPS)
    runner.learn(2)
    assert runner.adept.engine.feedback.rows == 2 * STEPS  # if recurrent, two whole environments
    assert runner.adept.engine.feedback.slope.known


def test_a_lr_scale_of_its_own_moves_the_critic_alone():
    runner = attach(build(learning_rate=1e-3), Scripted(CRITIC_ALONE), verbose=0)
    algorithm = runner.alg
    assert_only_the_critic_moves(lambda: runner.learn(1), algorithm.actor.parameters(), algorithm.critic.parameters())


def test_control_resumes_through_save_and_load(tmp_path):
    control = {"name": "hindsight", "distance": 1e-9}  # every update goes further than that, and is shortened
    first = attach(build(), control, verbose=0)
    first.learn(3)
    lr_scale = first.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    first.save(str(tmp_path / "model.pt"))
    second = attach(build(), control, verbose=0)
    second.load(str(tmp_path / "model.pt"))
    rates = run(second, 1)
    # The first update after a load is not judged: the scale goes on where it was.
    assert rates[0] == pytest.approx([RATE * lr_scale] * len(rates[0]))
    assert second.adept.engine.rule.state_dict() == first.adept.engine.rule.state_dict()
    afresh = attach(build(), control, verbose=0)
    afresh.load(str(tmp_path / "model.pt"), load_cfg={"actor": True, "critic": True})
    assert afresh.adept.engine.settings.lr_scale == 1.0
    other = attach(build(), Recorder([3, 1]), verbose=0)
    with pytest.raises(ValueError, match=rf"cannot load this state .*load_cfg={{\.\.\., '{STATE}': False}}"):
        other.load(str(tmp_path / "model.pt"))
    build().load(str(tmp_path / "model.pt"))  # a runner without ADEPT takes the checkpoint, too


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_guard_ends_an_update(recurrent):
    runner = attach(build(recurrent=recurrent), Scripted([(3, 1.0)], kl_stop=1e-9), verbose=0)
    assert [len(rates) for rates in run(runner, 2)] == [MINIBATCHES, MINIBATCHES]
    assert runner.adept.engine.update_metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 1.0}
    assert runner.alg.num_learning_epochs == CONFIGURED


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged():
    runner = attach(build(), verbose=0, gains_every=2)
    both = (runner.alg.actor, runner.alg.critic)
    size = sum(parameter.numel() for part in both for parameter in part.parameters())
    held = []
    for _ in range(3):
        runner.learn(1)
        judge = runner.adept.engine._evaluator
        held.append(sum(each.numel() for copy in (judge.start, *judge.marked.values()) for _, each in copy) / size)
    assert held == [1, 1 + 2, 1]


def test_numbers_go_to_the_runners_writer(tmp_path):
    runner = attach(build(str(tmp_path), num_learning_epochs=4), "standardized-ucb", verbose=0, gains_every=1)
    runner.learn(2)
    runner.logger.writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = {name for name in events.Tags()["scalars"] if name.startswith("adept/")}
    assert {"adept/epochs", "adept/epochs_done", "adept/reward", "adept/slope_z", "adept/update_gain"} < names
    assert {"adept/gain/1", "adept/gain/2", "adept/gain/4"} < names
    assert runner.adept.engine.rule.scheduler.arms == (4, 2, 1)
    # 4 was chosen and credited, 2 chosen, 1 neither.
    by_arm = {name for name in names if name.startswith("adept/arm_")}
    quantities = {"/4": ("choices", "share", "value", "score"), "/2": ("choices", "share")}
    assert by_arm == {f"adept/arm_{quantity}{arm}" for arm, each in quantities.items() for quantity in each}
    assert len(events.Scalars("adept/arm_value/4")) == 1, "no value before the first reward"
    assert [event.value for event in events.Scalars("adept/reward")] == pytest.approx(counting_means(2, STEPS))


def test_what_is_refused(recorder):
    with pytest.raises(ValueError, match=r"OnPolicyRunner of rsl_rl.runners with PPO is needed: build one"):
        attach(object(), recorder)
    runner = build()
    assert isinstance(runner.alg, PPO)
    runner.alg.is_multi_gpu = True
    with pytest.raises(ValueError, match=r"several processes.*attach without a scheduler for advice"):
        attach(runner, recorder)
    with pytest.raises(ValueError, match="one is allowed"):
        attach(attach(runner), recorder)


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "3.1.0")
    with pytest.raises(ImportError, match=r"rsl-rl-lib 3.1.0 .*>=5.5,<5.6: pip install 'adept-rl\[rsl_rl\]'"):
        import_afresh("adept.integrations.rsl_rl")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rsl_rl", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[rsl_rl\]'"):
        import_afresh("adept.integrations.rsl_rl")
