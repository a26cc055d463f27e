import copy
import gc
import math
import sys
import weakref

import pytest

pytest.importorskip("tianshou", reason="needs the environment of tianshou: make test-integrations")

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
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.algorithm import A2C, GAIL, PPO, TRPO, Reinforce
from tianshou.algorithm.modelbased.icm import ICMOnPolicyWrapper
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import MLP, Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic, IntrinsicCuriosityModule
from torch.utils.tensorboard import SummaryWriter

from adept import GaussianThompson
from adept.integrations.tianshou import attach

pytestmark = pytest.mark.integration

STEPS, ENVS, BATCH = 16, 2, 8
MINIBATCHES = STEPS * ENVS // BATCH


def build(algorithm=PPO, *, rate=None, **options):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = Net(state_shape=(3,), hidden_sizes=[4])
    policy = ProbabilisticActorPolicy(
        actor=DiscreteActor(preprocess_net=net, action_shape=2),
        dist_fn=torch.distributions.Categorical,
        action_space=Counting.action_space,
        action_scaling=False,
        action_bound_method=None,
    )
    optim = AdamOptimizerFactory(lr=0.01)
    if rate is not None:
        optim.with_lr_scheduler_factory(rate)
    if algorithm is Reinforce:
        return Reinforce(policy=policy, optim=optim)
    critic = DiscreteCritic(preprocess_net=Net(state_shape=(3,), hidden_sizes=[4]))
    return algorithm(policy=policy, critic=critic, optim=optim, gamma=0.0, **options)


def run(algorithm, updates, *, logger=None):
    """Train for so many updates; return the gradient steps of each and the learning rates in each."""
    done = []
    step, update = algorithm.optim._optim.step, algorithm.update

    def counted_step(*args, **kwargs):
        done[-1][0] += 1
        done[-1][1].add(algorithm.optim._optim.param_groups[0]["lr"])
        return step(*args, **kwargs)

    def counted_update(*args, **kwargs):
        done.append([0, set()])
        return update(*args, **kwargs)

    algorithm.optim._optim.step, algorithm.update = counted_step, counted_update
    collector = Collector(algorithm, DummyVectorEnv([Counting] * ENVS), VectorReplayBuffer(STEPS * ENVS, ENVS))
    collector.reset()
    params = OnPolicyTrainerParams(
        training_collector=collector,
        test_collector=None,
        test_step_num_episodes=0,
        max_epochs=1,
        epoch_num_steps=updates * STEPS * ENVS,
        collection_step_num_env_steps=STEPS * ENVS,
        update_step_num_repetitions=7,
        batch_size=BATCH,
        logger=logger,
        show_progress=False,
        verbose=False,
    )
    algorithm.run_training(params)
    algorithm.optim._optim.step, algorithm.update = step, update
    return done


def test_epochs_that_run_are_the_choices(recorder):
    done = run(attach(build(), recorder), 5)
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [steps for steps, _ in done] == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]


@pytest.mark.parametrize("return_scaling", [False, True])
def test_the_previous_choice_gets_the_mean_return(recorder, return_scaling):
    algorithm = attach(build(return_scaling=return_scaling), recorder)
    run(algorithm, 5)
    recorder.assert_credits(counting_means(5, STEPS))
    if return_scaling:
        assert math.sqrt(algorithm.ret_rms.var) > 10.0


def test_recomputed_advantages_leave_the_reward_alone(recorder):
    run(attach(build(return_scaling=True, recompute_advantage=True), recorder), 4)
    recorder.assert_credits(counting_means(4, STEPS))


def test_state_survives_save_and_load(tmp_path):
    first = GaussianThompson([3, 1, 2], seed=5)
    algorithm = attach(build(), first)
    run(algorithm, 2)
    torch.save(algorithm.state_dict(), tmp_path / "checkpoint.pt")
    second = GaussianThompson([3, 1, 2], seed=6)
    loaded = attach(build(), second)
    loaded.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert second.state_dict() == first.state_dict()
    run(loaded, 1)
    first.step(counting_means(1, STEPS)[0])
    assert_same_state(second, first)


def test_the_state_of_other_arms_is_refused(recorder):
    algorithm = attach(build(), recorder)
    other = attach(build(), Recorder([3, 1]))
    with pytest.raises((ValueError, RuntimeError), match=r"arms .*'3', '1', '2'.*drop 'adept._extra_state'"):
        other.load_state_dict(algorithm.state_dict())


@pytest.mark.parametrize("scheduler", [None, "ucb"])
def test_a_checkpoint_of_an_algorithm_without_adept_is_loaded(scheduler):
    plain = build()
    run(plain, 1)
    loaded = attach(build(), scheduler)
    loaded.load_state_dict(plain.state_dict())
    assert_equal_bit_for_bit((loaded.policy.state_dict(), plain.policy.state_dict()))
    run(loaded, 2)


@pytest.mark.parametrize("scheduler", [None, "ucb"])
def test_a_checkpoint_made_with_advice_is_loaded_with_and_without_it(scheduler):
    monitoring = attach(build(), scheduler)
    run(monitoring, 2)
    advised = attach(build())
    advised.load_state_dict(monitoring.state_dict())
    assert_equal_bit_for_bit((advised.policy.state_dict(), monitoring.policy.state_dict()))
    if scheduler is None:
        plain = build()
        plain.load_state_dict(monitoring.state_dict())
        assert_equal_bit_for_bit((plain.state_dict(), monitoring.state_dict()))


@pytest.mark.parametrize("scheduler", [None, "ucb"])
def test_what_is_loaded_is_not_judged_as_an_update(scheduler):
    algorithm = attach(build(), scheduler, verbose=0)
    older = build().state_dict()
    run(algorithm, 2)
    assert "adept/slope_z" in algorithm.adept.engine.metrics()
    algorithm.load_state_dict(older)
    run(algorithm, 1)
    assert "adept/slope_z" not in algorithm.adept.engine.metrics()
    run(algorithm, 1)
    assert "adept/slope_z" in algorithm.adept.engine.metrics()


def test_the_learning_rate_follows_updates_not_epochs(recorder):
    rate = LRSchedulerFactoryLinear(max_epochs=1, epoch_num_steps=5, collection_step_num_env_steps=1)
    done = run(attach(build(rate=rate), recorder), 5)
    for number, (_, rates) in enumerate(done):
        assert list(rates) == pytest.approx([0.01 * (1 - number / 5)])


def test_metrics_go_to_the_trainers_logger(recorder, tmp_path):
    logger = TensorboardLogger(SummaryWriter(str(tmp_path)), training_interval=1, update_interval=1)
    logger.update_interval = 0
    run(attach(build(), recorder), 3, logger=logger)
    logger.writer.flush()
    events = EventAccumulator(str(tmp_path))
    events.Reload()

    def written(name):
        return [event.value for event in events.Scalars(f"update/adept/{name}")]

    assert written("epochs") == written("epochs_done") == [3.0, 1.0, 2.0]
    assert written("reward") == pytest.approx(counting_means(3, STEPS))
    assert written("arm_choices/3") == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("algorithm", [A2C, TRPO, Reinforce])
def test_other_algorithms_are_refused(algorithm, recorder):
    with pytest.raises(ValueError, match=rf"got {algorithm.__name__}, .*only PPO's are: build"):
        attach(build(algorithm), recorder)


def test_a_second_scheduler_is_refused(recorder):
    with pytest.raises(ValueError, match="one is allowed"):
        attach(attach(build(), recorder), recorder)


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "1.2.0")
    with pytest.raises(ImportError, match=r"tianshou 1.2.0 .*>=2.0,<2.1: pip install 'adept-rl\[tianshou\]'"):
        import_afresh("adept.integrations.tianshou")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tianshou", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[tianshou\]'"):
        import_afresh("adept.integrations.tianshou")


def monitored(algorithm):
    """Return an oracle on an algorithm's updates."""
    batches, preprocess = [], algorithm._preprocess_batch

    def seen(batch, buffer, indices):
        batches.append(preprocess(batch, buffer, indices))
        return batches[-1]

    algorithm._preprocess_batch = seen

    def log_probs():
        observations, actions = torch.as_tensor(batches[-1].obs), torch.as_tensor(batches[-1].act)
        actor = algorithm.policy.actor
        logits = actor.last(actor.preprocess.model(observations))
        return torch.log_softmax(logits, 1).gather(1, actions.long()[:, None])

    return Oracle(
        algorithm.adept.engine,
        algorithm.optim._optim,
        MINIBATCHES,
        algorithm.policy.parameters(),
        log_probs,
        lambda: batches[-1].adv,
        (algorithm.critic.parameters(), lambda: algorithm.critic(batches[-1].obs), lambda: batches[-1].returns),
    )


def seeded(algorithm, updates, **options):
    np.random.seed(2)  # noqa: NPY002 (Tianshou shuffles with it)
    return run(algorithm, updates, **options)


@pytest.mark.parametrize("recompute", [False, True])
def test_monitoring_changes_nothing_and_the_slope_is_that_of_the_batch(recompute, capsys):
    plain = build(recompute_advantage=recompute)
    seeded(plain, 4)
    algorithm = attach(build(recompute_advantage=recompute), gains_every=1)
    oracle = monitored(algorithm)
    capsys.readouterr()
    seeded(algorithm, 4)
    assert capsys.readouterr().out == f"adept: {algorithm.adept.advice()}\n"
    oracle.assert_evaluations()
    assert [sorted(evaluation.gain_by_epoch) for evaluation in oracle.evaluations[1:]] == [[1, 2, 4, 7]] * 3
    assert_equal_bit_for_bit((algorithm.state_dict(), plain.state_dict()))


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged(capsys):
    algorithm = attach(build(), verbose=0, gains_every=2)
    held = []
    for _ in range(3):
        run(algorithm, 1)
        held.append(held_copies(algorithm.adept.engine, list(algorithm.parameters())))
    assert held == [1, 1 + 3, 1]
    assert "adept" not in capsys.readouterr().out


def test_the_lr_scale_multiplies_the_scheduled_rate():
    choices = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    rate = LRSchedulerFactoryLinear(max_epochs=1, epoch_num_steps=5, collection_step_num_env_steps=1)
    algorithm = attach(build(rate=rate), Scripted(choices), verbose=0)
    oracle = monitored(algorithm)
    run(algorithm, 4)
    oracle.assert_rates(choices, lambda update: 0.01 * (1 - update / 5))
    assert algorithm.optim._optim.param_groups[0]["lr"] == pytest.approx(0.01 * (1 - 4 / 5))


def test_a_lr_scale_of_its_own_moves_the_critic_alone():
    algorithm = attach(build(), Scripted(CRITIC_ALONE), verbose=0)
    assert_only_the_critic_moves(
        lambda: run(algorithm, 1), algorithm.policy.parameters(), algorithm.critic.parameters()
    )


def test_control_resumes_through_save_and_load(tmp_path):
    algorithm = attach(build(), SHORTENING, verbose=0)
    run(algorithm, 3)
    lr_scale = algorithm.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    torch.save(algorithm.state_dict(), tmp_path / "checkpoint.pt")
    loaded = attach(build(), SHORTENING, verbose=0)
    oracle = monitored(loaded)
    loaded.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    run(loaded, 1)
    oracle.assert_rates([(7, lr_scale)], lambda update: 0.01)


@pytest.mark.parametrize("recompute", [False, True])
def test_the_guard_ends_an_update(recompute):
    algorithm = attach(build(recompute_advantage=recompute), Scripted([(3, 1.0)], kl_stop=1e-9), verbose=0)
    assert [steps for steps, _ in run(algorithm, 2)] == [MINIBATCHES, MINIBATCHES]
    assert algorithm.adept.engine.update_metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 1.0}


class Discriminator(torch.nn.Module):
    """Takes an observation and an action, which is a number here."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(4, 1)

    def forward(self, pairs):
        return self.last(pairs.float())


class NumberedGAIL(GAIL):
    """GAIL for actions that are numbers, of which Tianshou's own needs vectors."""

    def disc(self, batch):
        actions = torch.as_tensor(batch.act).float().reshape(len(batch), 1)
        return self.disc_net(torch.cat([torch.as_tensor(batch.obs), actions], dim=1))


def gail():
    """Its discriminator makes 4 steps on minibatches of a quarter of the batch, as large as the policy's."""
    expert = VectorReplayBuffer(STEPS * ENVS, ENVS)
    collector = Collector(build(), DummyVectorEnv([Counting] * ENVS), expert)
    collector.reset()
    collector.collect(n_step=STEPS * ENVS)
    torch.manual_seed(2)
    options = {"expert_buffer": expert, "disc_net": Discriminator(), "disc_optim": AdamOptimizerFactory(lr=0.01)}
    return build(NumberedGAIL, **options)


def test_gail_is_judged_by_the_epochs_of_its_policy(tmp_path):
    """The discriminator's pass over the batch before the first epoch is none of them."""
    plain = gail()
    seeded(plain, 4)
    logger = TensorboardLogger(SummaryWriter(str(tmp_path)), training_interval=1, update_interval=1)
    logger.update_interval = 0
    algorithm = attach(gail(), verbose=0, gains_every=1)
    oracle = monitored(algorithm)
    seeded(algorithm, 4, logger=logger)
    assert [sorted(evaluation.gain_by_epoch) for evaluation in oracle.evaluations[1:]] == [[1, 2, 4, 7]] * 3
    oracle.assert_evaluations()
    assert_equal_bit_for_bit((algorithm.state_dict(), plain.state_dict()))
    logger.writer.flush()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = {"update/adept/epochs_done", "update/adept/slope_z", "update/disc_loss/mean", "update/acc_exp/mean"}
    assert names < set(events.Tags()["scalars"])


def test_the_guard_leaves_gails_discriminator_alone():
    algorithm = attach(gail(), Scripted([(3, 1.0)], kl_stop=1e-9), verbose=0)
    assert [steps for steps, _ in run(algorithm, 2)] == [MINIBATCHES, MINIBATCHES]


def curious(algorithm):
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002 - Tianshou shuffles with it
    model = IntrinsicCuriosityModule(
        feature_net=MLP(input_dim=3, output_dim=4, hidden_sizes=[4]), feature_dim=4, action_dim=2, hidden_sizes=[4]
    )
    wrapped = ICMOnPolicyWrapper(
        wrapped_algorithm=algorithm,
        model=model,
        optim=AdamOptimizerFactory(lr=0.01),
        lr_scale=1.0,
        reward_scale=0.1,
        forward_loss_weight=0.2,
    )
    wrapped.optim = algorithm.optim  # what `run` counts
    return wrapped


def test_ppo_inside_a_wrapper_trains_as_without(tmp_path):
    plain = build()
    run(curious(plain), 3)
    monitored = attach(build(), verbose=0, gains_every=1)
    run(curious(monitored), 3)
    assert monitored.adept.engine.feedback.slope.known
    assert_equal_bit_for_bit((monitored.policy.state_dict(), plain.policy.state_dict()))


def test_no_batch_outlives_its_update():
    algorithm, alive = attach(build(), verbose=0), []
    update = algorithm._update_with_batch

    def counted(batch, *args, **kwargs):
        alive.append(weakref.ref(batch.adv))
        return update(batch, *args, **kwargs)

    algorithm._update_with_batch = counted
    gc.disable()
    try:
        run(algorithm, 4)
        assert sum(each() is not None for each in alive) <= 1
    finally:
        gc.enable()


def test_an_attached_algorithm_can_be_copied():
    algorithm = attach(build(), "hindsight", verbose=0)
    assert copy.deepcopy(algorithm).adept.engine.rule.epochs == algorithm.adept.engine.rule.epochs


def test_a_policy_is_judged_as_it_acts():
    """A rate of 0 makes updates that change nothing, whatever dropout does in training."""
    algorithm = build()
    algorithm.policy.actor.preprocess.model.model.append(torch.nn.Dropout(0.5))
    algorithm.optim._optim.param_groups[0]["lr"] = 0.0
    attach(algorithm, verbose=0, gains_every=1)
    run(algorithm, 3)
    assert algorithm.adept.engine.feedback is None, "it did not move"
