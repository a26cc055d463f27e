"""Tianshou's PPO, with and without scaled returns and recomputed advantages."""

import torch
from recording import Counting
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.algorithm import PPO, Reinforce
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.utils.tensorboard import SummaryWriter

from adept.integrations.tianshou import attach
from hosts.base import Host

STEPS, ENVS, BATCH = 16, 2, 8
ROLLOUT = STEPS * ENVS
KINDS = {"ppo": {}, "scaled": {"return_scaling": True}, "recomputed": {"recompute_advantage": True}}


def make(algorithm=PPO, *, rate=None, **options):
    """Return an algorithm on an actor and a critic of one small layer each."""
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


def train(algorithm, updates, logger=None):
    """Train for so many updates, in environments that begin anew."""
    collector = Collector(algorithm, DummyVectorEnv([Counting] * ENVS), VectorReplayBuffer(ROLLOUT, ENVS))
    collector.reset()
    params = OnPolicyTrainerParams(
        training_collector=collector,
        test_collector=None,
        test_step_num_episodes=0,
        max_epochs=1,
        epoch_num_steps=updates * ROLLOUT,
        collection_step_num_env_steps=ROLLOUT,
        update_step_num_repetitions=7,
        batch_size=BATCH,
        logger=logger,
        show_progress=False,
        verbose=False,
    )
    algorithm.run_training(params)


class Tianshou(Host):
    made = staticmethod(make)

    def build(self):
        rate = LRSchedulerFactoryLinear(max_epochs=1, epoch_num_steps=5, collection_step_num_env_steps=1)
        self.algorithm = self.made(rate=rate if self.scheduled else None, **KINDS[self.variant], **self.settings)
        self.batches = []
        self.logger = TensorboardLogger(SummaryWriter(str(self.folder)), training_interval=1, update_interval=1)
        self.logger.update_interval = 0

    def attach(self, given, **options):
        attach(self.algorithm, given, **options)
        preprocess = self.algorithm._preprocess_batch

        def seen(batch, buffer, indices):
            self.batches.append(preprocess(batch, buffer, indices))
            return self.batches[-1]

        self.algorithm._preprocess_batch = seen

    def run(self, updates):
        train(self.algorithm, updates, self.logger)

    def save(self, path):
        torch.save(self.algorithm.state_dict(), path)

    def load(self, path):
        self.algorithm.load_state_dict(torch.load(path, weights_only=True))

    def logged(self, name):
        self.logger.writer.flush()
        events = EventAccumulator(str(self.folder))
        events.Reload()
        tag = f"update/{name}"
        return [event.value for event in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []

    def everything(self):
        return {name: value for name, value in self.algorithm.state_dict().items() if "adept" not in name}

    def own_epochs(self):
        return self.epochs

    engine = property(lambda self: self.algorithm.adept.engine)
    advice = property(lambda self: self.algorithm.adept.advice())
    policy = property(lambda self: self.algorithm.policy)
    optimizer = property(lambda self: self.algorithm.optim._optim)
    critic = property(lambda self: list(self.algorithm.critic.parameters()))

    def log_probs(self):
        observations, actions = (torch.as_tensor(getattr(self.batches[-1], name)) for name in ("obs", "act"))
        actor = self.policy.actor
        logits = actor.last(actor.preprocess.model(observations))
        return torch.log_softmax(logits, 1).gather(1, actions.long()[:, None])

    def advantages(self):
        return self.batches[-1].adv

    def values(self):
        return self.algorithm.critic(self.batches[-1].obs)

    def returns(self):
        return self.batches[-1].returns


HOST = Tianshou
