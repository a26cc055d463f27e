import gc
import sys
import weakref

import pytest

pytest.importorskip("skrl", reason="needs the environment of skrl: make test-integrations")

import numpy as np
import torch
from recording import (
    CRITIC_ALONE,
    SHORTENING,
    Counting,
    Oracle,
    Recorder,
    Scripted,
    assert_equal_bit_for_bit,
    assert_only_the_critic_moves,
    assert_same_state,
    counting_means,
    held_copies,
    import_afresh,
)
from skrl.agents.torch.a2c import A2C
from skrl.agents.torch.ppo import PPO, PPO_RNN
from skrl.agents.torch.rpo import RPO, RPO_RNN
from skrl.agents.torch.trpo import TRPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer

from adept import GaussianThompson
from adept.integrations.skrl import attach
from adept.rules import Settings

pytestmark = pytest.mark.integration

STEPS, MINIBATCHES, CONFIGURED = 16, 2, 4


class Policy(CategoricalMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Linear(3, 2)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Perturbed(Policy):
    """A policy as RPO wants it: what it says is moved by up to alpha, each time anew."""

    def compute(self, inputs, role=""):
        logits = self.net(inputs["observations"])
        return logits + inputs["alpha"] * (2 * torch.rand_like(logits) - 1), {}


class Value(DeterministicMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(3, 1)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


def build(tmp_path, agent=PPO, policy=Policy, **options):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    env = wrap_env(Counting(), wrapper="gymnasium")
    silent = {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}
    cfg = {"rollouts": STEPS, "discount_factor": 0.0, "experiment": silent} | options
    if agent is not A2C:
        cfg |= {"learning_epochs": CONFIGURED, "mini_batches": MINIBATCHES}
    return agent(
        models={"policy": policy(env), "value": Value(env)},
        memory=RandomMemory(memory_size=STEPS, num_envs=1, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg=cfg,
    ), env


def run(agent, env, updates):
    """Train for so many updates; return of each the gradient steps, the learning rates and the tracked data."""
    done = []
    step, update = agent.optimizer.step, agent.update

    def counted_step(*args, **kwargs):
        done[-1]["steps"] += 1
        done[-1]["rates"].add(agent.optimizer.param_groups[0]["lr"])
        return step(*args, **kwargs)

    def counted_update(**kwargs):
        done.append({"steps": 0, "rates": set()})
        agent.tracking_data.clear()
        update(**kwargs)
        done[-1]["tracked"] = {name: values[0] for name, values in agent.tracking_data.items()}

    agent.optimizer.step, agent.update = counted_step, counted_update
    cfg = {
        "timesteps": updates * STEPS,
        "headless": True,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }
    SequentialTrainer(cfg=cfg, env=env, agents=agent).train()
    agent.optimizer.step, agent.update = step, update
    return done


@pytest.mark.parametrize("kind", [PPO, PPO_RNN, RPO, RPO_RNN])
def test_epochs_that_run_are_the_choices(kind, recorder, tmp_path):
    agent, env = build(tmp_path, kind)
    done = run(attach(agent, recorder), env, 5)
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [update["steps"] for update in done] == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]
    assert agent.cfg.learning_epochs == CONFIGURED


@pytest.mark.parametrize("kind", [PPO, PPO_RNN, RPO, RPO_RNN])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_previous_choice_gets_the_mean_return(kind, scaled, recorder, tmp_path):
    scaler = {"value_preprocessor": RunningStandardScaler, "value_preprocessor_kwargs": {"size": 1}} if scaled else {}
    agent, env = build(tmp_path, kind, **scaler)
    run(attach(agent, recorder), env, 5)
    recorder.assert_credits(counting_means(5, STEPS))
    if scaled:
        assert abs(agent.memory.get_tensor_by_name("returns").mean()) < 5.0  # what the agent sees is scaled


def test_state_survives_save_and_load(tmp_path):
    first, second = GaussianThompson([3, 1, 2], seed=5), GaussianThompson([3, 1, 2], seed=6)
    agent, env = build(tmp_path)
    run(attach(agent, first), env, 2)
    agent.save(str(tmp_path / "agent.pt"))
    loaded, env = build(tmp_path)
    attach(loaded, second).load(str(tmp_path / "agent.pt"))
    assert second.state_dict() == first.state_dict()
    run(loaded, env, 1)
    first.step(counting_means(1, STEPS)[0])
    assert_same_state(second, first)


def test_the_state_of_other_arms_is_refused(recorder, tmp_path):
    agent, _ = build(tmp_path)
    attach(agent, recorder).save(str(tmp_path / "agent.pt"))
    other, _ = build(tmp_path)
    with pytest.raises(ValueError, match=r"arms .*'3', '1', '2'.*drop 'adept'"):
        attach(other, Recorder([3, 1])).load(str(tmp_path / "agent.pt"))


def test_the_learning_rate_schedule_runs_as_without_choices(recorder, tmp_path):
    """LambdaLR counts skrl's epochs: with four configured, update n begins at step 4n, whatever was chosen."""
    schedule = {
        "learning_rate": 0.01,
        "learning_rate_scheduler": torch.optim.lr_scheduler.LambdaLR,
        "learning_rate_scheduler_kwargs": {"lr_lambda": lambda step: 0.9**step},
    }
    agent, env = build(tmp_path, **schedule)
    done = run(attach(agent, recorder), env, 5)
    for number, update in enumerate(done):
        assert list(update["rates"]) == pytest.approx([0.01 * 0.9 ** (CONFIGURED * number)])


def test_the_adaptive_learning_rate_makes_one_step_per_update(recorder, tmp_path):
    """With a divergence far below the threshold each step multiplies the rate by 1.5."""
    schedule = {
        "learning_rate": 1e-5,
        "learning_rate_scheduler": KLAdaptiveLR,
        "learning_rate_scheduler_kwargs": {"kl_threshold": 10.0, "lr_factor": 1.5},
    }
    agent, env = build(tmp_path, **schedule)
    done = run(attach(agent, recorder), env, 5)
    for number, update in enumerate(done):
        assert list(update["rates"]) == pytest.approx([1e-5 * 1.5**number])


def test_metrics_are_tracked_with_the_agents_data(recorder, tmp_path):
    agent, env = build(tmp_path)
    tracked = [update["tracked"] for update in run(attach(agent, recorder), env, 3)]
    assert [numbers["adept/epochs"] for numbers in tracked] == [3.0, 1.0, 2.0]
    assert [numbers["adept/epochs_done"] for numbers in tracked] == [3.0, 1.0, 2.0]
    assert [numbers["adept/reward"] for numbers in tracked] == pytest.approx(counting_means(3, STEPS))
    assert tracked[-1]["adept/arm_choices/1"] == 1.0


def test_a_stop_by_divergence_shows_in_the_epochs_done(recorder, tmp_path):
    agent, env = build(tmp_path, kl_threshold=1e-12, learning_rate=0.1)
    done = run(attach(agent, recorder), env, 3)
    assert [update["tracked"]["adept/epochs"] for update in done] == [3.0, 1.0, 2.0]
    for update in done:
        assert (
            update["tracked"]["adept/epochs_done"] == update["steps"] / MINIBATCHES < update["tracked"]["adept/epochs"]
        )


@pytest.mark.parametrize("kind", [A2C, TRPO])
def test_other_agents_are_refused(kind, recorder, tmp_path):
    agent, _ = build(tmp_path, kind)
    with pytest.raises(ValueError, match=rf"got {kind.__name__}, .*PPO, PPO_RNN, RPO, RPO_RNN.*build one"):
        attach(agent, recorder)


def test_a_second_scheduler_is_refused(recorder, tmp_path):
    agent, _ = build(tmp_path)
    with pytest.raises(ValueError, match="one is allowed"):
        attach(attach(agent, recorder), recorder)


def test_distributed_runs_are_refused(recorder, tmp_path, monkeypatch):
    agent, _ = build(tmp_path)
    monkeypatch.setattr("skrl.config.torch._is_distributed", True)
    with pytest.raises(ValueError, match=r"distributed.*single-process.*without torchrun"):
        attach(agent, recorder)


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "1.4.3")
    with pytest.raises(ImportError, match=r"skrl 1.4.3 .*>=2.1,<2.2: pip install 'adept-rl\[skrl\]'"):
        import_afresh("adept.integrations.skrl")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrl", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[skrl\]'"):
        import_afresh("adept.integrations.skrl")


def monitored(agent):
    """Return an oracle on an agent's updates."""

    def log_probs():
        memory = agent.memory
        observations = agent._observation_preprocessor(memory.get_tensor_by_name("observations").flatten(0, 1))
        actions = memory.get_tensor_by_name("actions").flatten(0, 1).long()
        return torch.log_softmax(agent.policy.net(observations), 1).gather(1, actions)

    def advantages():
        return agent.memory.get_tensor_by_name("advantages")

    def values():
        return agent.value.net(agent._observation_preprocessor(agent.memory.get_tensor_by_name("observations")))

    critic = agent.value.parameters(), values, lambda: agent.memory.get_tensor_by_name("returns")
    return Oracle(
        agent.adept.engine, agent.optimizer, MINIBATCHES, agent.policy.parameters(), log_probs, advantages, critic
    )


@pytest.mark.parametrize("scaled", [False, True])
def test_monitoring_changes_nothing_and_the_slope_is_that_of_the_memory(scaled, tmp_path, capsys):
    scaler = {"observation_preprocessor": RunningStandardScaler, "observation_preprocessor_kwargs": {"size": 3}}
    scaler |= {"value_preprocessor": RunningStandardScaler, "value_preprocessor_kwargs": {"size": 1}}
    options = {"learning_rate": 0.02, **(scaler if scaled else {})}
    plain, env = build(tmp_path, **options)
    run(plain, env, 4)
    agent, env = build(tmp_path, **options)
    attach(agent, gains_every=1)
    oracle = monitored(agent)
    capsys.readouterr()
    done = run(agent, env, 4)
    assert capsys.readouterr().out == f"adept: {agent.adept.advice()}\n"
    oracle.assert_evaluations()
    for module, own in plain.checkpoint_modules.items():
        assert_equal_bit_for_bit((agent.checkpoint_modules[module].state_dict(), own.state_dict()))
    names = {"adept/slope_z", "adept/update_gain", "adept/gain/4", "adept/epochs", "adept/epochs_done"}
    assert names < done[-1]["tracked"].keys()
    assert done[-1]["tracked"]["adept/gain/4"] == done[-1]["tracked"]["adept/update_gain"]


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged(tmp_path, capsys):
    agent, env = build(tmp_path)
    attach(agent, verbose=0, gains_every=2)
    held = []
    for _ in range(3):
        run(agent, env, 1)
        held.append(held_copies(agent.adept.engine, [*agent.policy.parameters(), *agent.value.parameters()]))
    assert held == [1, 1 + 2, 1]
    assert capsys.readouterr().out == ""


def test_the_lr_scale_multiplies_the_scheduled_rate(tmp_path):
    choices = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    schedule = {
        "learning_rate": 0.01,
        "learning_rate_scheduler": torch.optim.lr_scheduler.LambdaLR,
        "learning_rate_scheduler_kwargs": {"lr_lambda": lambda step: 0.9**step},
    }
    agent, env = build(tmp_path, **schedule)
    oracle = monitored(attach(agent, Scripted(choices), verbose=0))
    run(agent, env, 4)
    oracle.assert_rates(choices, lambda update: 0.01 * 0.9 ** (CONFIGURED * update))
    assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9 ** (CONFIGURED * 4))


def test_a_lr_scale_of_its_own_moves_the_critic_alone(tmp_path):
    agent, env = build(tmp_path, learning_rate=1e-3)
    attach(agent, Scripted(CRITIC_ALONE), verbose=0)
    assert_only_the_critic_moves(lambda: run(agent, env, 1), agent.policy.parameters(), agent.value.parameters())


def test_optimizing_for_compute_makes_fewer_epochs(tmp_path):
    """Three of four: 0.4 of them would be fewer than three."""
    agent, env = build(tmp_path, learning_rate=5e-4)
    assert agent.cfg.learning_epochs == CONFIGURED == 4
    run(attach(agent, {"name": "hindsight", "optimize_for": "compute"}, verbose=0), env, 1)
    assert agent.adept.engine.settings == Settings(3, 1.0)


def test_control_resumes_through_save_and_load(tmp_path):
    agent, env = build(tmp_path, learning_rate=0.02)
    run(attach(agent, SHORTENING, verbose=0), env, 3)
    lr_scale = agent.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    agent.save(str(tmp_path / "agent.pt"))
    loaded, env = build(tmp_path, learning_rate=0.02)
    oracle = monitored(attach(loaded, SHORTENING, verbose=0))
    loaded.load(str(tmp_path / "agent.pt"))
    run(loaded, env, 1)
    oracle.assert_rates([(CONFIGURED, lr_scale)], lambda update: 0.02)


def test_the_guard_ends_an_update(tmp_path):
    """The limit is passed at the first minibatch of epoch 3 of 4: skrl ends that epoch, ADEPT the update."""
    agent, env = build(tmp_path, learning_rate=0.1)
    attach(agent, Scripted([(4, 1.0)], kl_stop=100.0), verbose=0, gains_every=1)
    passes, act, sample = [], agent.policy.act, agent.memory.sample

    def sampled(*args, **kwargs):
        passes.append(0)
        if len(passes) == 3:
            assert agent.cfg.kl_threshold == 100.0
            agent.cfg.kl_threshold = 1e-9
        return sample(*args, **kwargs)

    def acted(inputs, role=""):
        if passes:
            passes[-1] += 1
        return act(inputs, role=role)

    agent.memory.sample, agent.policy.act = sampled, acted
    (update,) = run(agent, env, 1)
    assert passes == [MINIBATCHES, MINIBATCHES, 1, 0]
    assert update["steps"] == 2 * MINIBATCHES
    assert sorted(agent.adept.engine._evaluator.marked) == [1, 2]
    assert update["tracked"]["adept/epochs_done"] == 2.0
    assert np.isfinite([update["tracked"][name] for name in ("Loss / Policy loss", "Loss / Value loss")]).all()
    assert agent.cfg.kl_threshold == 0
    assert len(agent.memory.sample(names=["actions"], batch_size=STEPS, mini_batches=MINIBATCHES)) == MINIBATCHES


def test_a_stop_of_the_agents_own_is_left_to_it(tmp_path):
    """Without a controller skrl goes on with the next epoch, as it does without ADEPT."""
    options = {"kl_threshold": 1e-4, "learning_rate": 0.1}
    plain, env = build(tmp_path, **options)
    own = run(plain, env, 2)
    agent, env = build(tmp_path, **options)
    done = run(attach(agent, verbose=0, gains_every=1), env, 2)
    assert [update["steps"] for update in done] == [update["steps"] for update in own]
    assert all(update["steps"] < MINIBATCHES * CONFIGURED for update in done)
    assert_equal_bit_for_bit((agent.policy.state_dict(), plain.policy.state_dict()))


def test_rpo_is_judged_without_its_perturbation(tmp_path):
    """A rate of 0 makes updates that are worth nothing, however much RPO perturbs what the policy says."""
    agent, env = build(tmp_path, RPO, Perturbed, learning_rate=0.0, alpha=2.0)
    (_, update) = run(attach(agent, verbose=0, gains_every=1), env, 2)
    assert not {"adept/update_gain", "adept/update_kl"} & update["tracked"].keys(), "it did not move"


def test_monitoring_rpo_changes_nothing(tmp_path):
    plain, env = build(tmp_path, RPO, Perturbed, learning_rate=0.02)
    run(plain, env, 3)
    agent, env = build(tmp_path, RPO, Perturbed, learning_rate=0.02)
    done = run(attach(agent, verbose=0, gains_every=1), env, 3)
    assert {"adept/slope_z", "adept/gain/2"} < done[-1]["tracked"].keys()
    assert_equal_bit_for_bit((agent.policy.state_dict(), plain.policy.state_dict()))
    assert_equal_bit_for_bit((agent.value.state_dict(), plain.value.state_dict()))


def test_the_perturbation_of_rpo_does_not_end_an_update(tmp_path):
    """skrl's KL is that of the perturbation from the first minibatch on, before any step."""
    agent, env = build(tmp_path, RPO, Perturbed, alpha=2.0)
    done = run(attach(agent, Scripted([(3, 1.0)], kl_stop=0.01), verbose=0), env, 2)
    assert [update["steps"] for update in done] == [MINIBATCHES * 3] * 2


@pytest.mark.parametrize("made_with", [False, True])
def test_what_is_loaded_is_not_judged_as_an_update(made_with, tmp_path):
    older, _ = build(tmp_path)
    (attach(older, verbose=0) if made_with else older).save(str(tmp_path / "agent.pt"))
    agent, env = build(tmp_path)
    attach(agent, verbose=0)
    assert "adept/slope_z" in run(agent, env, 2)[-1]["tracked"]
    agent.load(str(tmp_path / "agent.pt"))
    after = run(agent, env, 2)
    assert ["adept/slope_z" in update["tracked"] for update in after] == [False, True]


def test_an_agent_without_adept_loads_a_checkpoint_made_with_it(tmp_path):
    agent, _ = build(tmp_path)
    attach(agent).save(str(tmp_path / "agent.pt"))
    plain, _ = build(tmp_path)
    plain.load(str(tmp_path / "agent.pt"))


def test_a_controller_replaces_the_adaptive_learning_rate(tmp_path):
    """The KL is far below the threshold: on its own KLAdaptiveLR would raise the rate after every epoch."""
    schedule = {
        "learning_rate": 1e-5,
        "learning_rate_scheduler": KLAdaptiveLR,
        "learning_rate_scheduler_kwargs": {"kl_threshold": 10.0, "lr_factor": 1.5},
    }
    choices = [(2, 1.0), (1, 0.5), (3, 0.25)]
    agent, env = build(tmp_path, **schedule)
    oracle = monitored(attach(agent, Scripted(choices), verbose=0))
    run(agent, env, 3)
    oracle.assert_rates(choices, lambda update: 1e-5)
    assert agent.optimizer.param_groups[0]["lr"] == 1e-5


def test_a_preprocessor_that_learns_its_scale_does_not_end_the_first_update(tmp_path):
    """The scale changes what the policy says from the second minibatch on, by far more than this limit."""
    scaled = {"observation_preprocessor": RunningStandardScaler, "observation_preprocessor_kwargs": {"size": 3}}
    agent, env = build(tmp_path, learning_rate=1e-9, **scaled)
    with torch.no_grad():
        agent.policy.net.weight.mul_(20)
    attach(agent, Scripted([(4, 1.0)], kl_stop=1e-3), verbose=0)
    assert run(agent, env, 1)[0]["steps"] == MINIBATCHES * 4


def test_no_minibatch_outlives_its_epoch(tmp_path):
    agent, env = build(tmp_path)
    attach(agent, verbose=0)
    memory, alive, most = agent.memory, [], []
    sample = memory.sample

    def counted(*args, **kwargs):
        most.append(sum(each() is not None for each in alive))
        minibatches = sample(*args, **kwargs)
        alive.extend(weakref.ref(each) for minibatch in minibatches for each in minibatch if each is not None)
        return minibatches

    memory.sample = counted
    run(agent, env, 2)
    gc.collect()
    assert not sum(each() is not None for each in alive), "nothing waits for the next rollout"


class Dropped(Policy):
    """A policy with dropout."""

    def compute(self, inputs, role=""):
        return torch.nn.functional.dropout(self.net(inputs["observations"]), 0.5, self.training), {}


def test_a_policy_is_judged_as_it_acts(tmp_path):
    """A rate of 0 makes updates that change nothing, whatever dropout does in training."""
    agent, env = build(tmp_path, policy=Dropped, learning_rate=0.0)
    (_, update) = run(attach(agent, verbose=0, gains_every=1), env, 2)
    assert "adept/update_kl" not in update["tracked"]
