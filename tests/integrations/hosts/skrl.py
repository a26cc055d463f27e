"""skrl: PPO and RPO, with and without recurrent policies and preprocessors."""

import torch
from recording import Counting
from skrl.agents.torch.ppo import PPO, PPO_RNN
from skrl.agents.torch.rpo import RPO, RPO_RNN
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer

from adept.integrations.skrl import attach
from hosts.base import Host

STEPS, MINIBATCHES, CONFIGURED = 16, 2, 4
SCALED = {
    "observation_preprocessor": RunningStandardScaler,
    "observation_preprocessor_kwargs": {"size": 3},
    "value_preprocessor": RunningStandardScaler,
    "value_preprocessor_kwargs": {"size": 1},
}


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


def build(folder, agent=PPO, policy=Policy, **options):
    """Return an agent and its environment."""
    env = wrap_env(Counting(), wrapper="gymnasium")
    silent = {"directory": str(folder), "write_interval": 0, "checkpoint_interval": 0}
    cfg = {"rollouts": STEPS, "discount_factor": 0.0, "experiment": silent} | options
    if agent.__name__ != "A2C":
        cfg |= {"learning_epochs": CONFIGURED, "mini_batches": MINIBATCHES}
    return agent(
        models={"policy": policy(env), "value": Value(env)},
        memory=RandomMemory(memory_size=STEPS, num_envs=1, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg=cfg,
    ), env


KINDS = {
    "ppo": (PPO, Policy, {}),
    "scaled": (PPO, Policy, SCALED),
    "ppo-rnn": (PPO_RNN, Policy, {}),
    "rpo": (RPO, Perturbed, {}),
    "rpo-rnn": (RPO_RNN, Policy, {}),
}


class Skrl(Host):
    """With a schedule that counts epochs: with four configured, update n begins at step 4n, whatever was chosen."""

    epochs, minibatches = CONFIGURED, MINIBATCHES

    def build(self):
        agent, policy, options = KINDS[self.variant]
        policy = self.settings.pop("policy", policy)
        schedule = {
            "learning_rate_scheduler": torch.optim.lr_scheduler.LambdaLR,
            "learning_rate_scheduler_kwargs": {"lr_lambda": lambda step: 0.9**step},
        }
        options = {"learning_rate": self.rate, **options, **(schedule if self.scheduled else {}), **self.settings}
        self.agent, self.env = build(self.folder, agent, policy, **options)
        self.tracked = []

    def attach(self, given, **options):
        attach(self.agent, given, **options)
        update = self.agent.update

        def tracked(**kwargs):
            self.agent.tracking_data.clear()
            update(**kwargs)
            self.tracked.append({name: values[0] for name, values in self.agent.tracking_data.items()})

        self.agent.update = tracked

    def schedule(self, update, steps):
        return [self.rate * (0.9 ** (CONFIGURED * update) if self.scheduled else 1)] * steps

    def run(self, updates):
        cfg = {"timesteps": updates * STEPS, "headless": True, "disable_progressbar": True}
        SequentialTrainer(cfg=cfg | {"close_environment_at_exit": False}, env=self.env, agents=self.agent).train()

    def save(self, path):
        self.agent.save(str(path))

    def load(self, path):
        self.agent.load(str(path))

    def logged(self, name):
        return [row[name] for row in self.tracked if name in row]

    def everything(self):
        return {name: module.state_dict() for name, module in self.agent.checkpoint_modules.items() if name != "adept"}

    def own_epochs(self):
        return self.agent.cfg.learning_epochs

    engine = property(lambda self: self.agent.adept.engine)
    advice = property(lambda self: self.agent.adept.advice())
    policy = property(lambda self: self.agent.policy)
    optimizer = property(lambda self: self.agent.optimizer)
    critic = property(lambda self: list(self.agent.value.parameters()))

    def _stored(self, name):
        return self.agent.memory.get_tensor_by_name(name)

    def log_probs(self):
        observations = self.agent._observation_preprocessor(self._stored("observations").flatten(0, 1))
        actions = self._stored("actions").flatten(0, 1).long()
        return torch.log_softmax(self.policy.net(observations), 1).gather(1, actions)

    def advantages(self):
        return self._stored("advantages")

    def values(self):
        return self.agent.value.net(self.agent._observation_preprocessor(self._stored("observations")))

    def returns(self):
        return self._stored("returns")


HOST = Skrl
