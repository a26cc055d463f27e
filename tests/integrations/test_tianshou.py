import math
import sys

import pytest

pytest.importorskip("tianshou", reason="needs the environment of tianshou: make test-integrations")

import torch
from recording import Counting, Recorder, assert_same_state, counting_means, import_afresh
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.algorithm import A2C, PPO, TRPO, Reinforce
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
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
    assert written("choices/3") == [1.0, 1.0, 1.0]


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
