"""rsl_rl's OnPolicyRunner with PPO, MLP and recurrent."""

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from adept.integrations.rsl_rl import attach
from hosts.base import Host

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
    """Return a runner on networks of one small layer, with rsl_rl's KL rule unless told otherwise."""
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


class RslRl(Host):
    """Its schedule is a hand that sets the rate before every update: its own rule, by KL, is `schedule="adaptive"`."""

    steps, epochs, minibatches, rate = STEPS, CONFIGURED, MINIBATCHES, RATE

    def build(self):
        options = {"schedule": "fixed"} if self.scheduled else {}
        self.runner = build(str(self.folder), recurrent=self.variant == "recurrent", **options, **self.settings)
        self.values_of = {}

    def attach(self, given, **options):
        attach(self.runner, given, **options)
        logger, log = self.runner.logger, self.runner.logger.log

        def noted(*args, **kwargs):
            writer, add = logger.writer, logger.writer.add_scalar
            writer.add_scalar = lambda name, value, *rest: (self._note(name, value), add(name, value, *rest))
            log(*args, **kwargs)
            del writer.add_scalar

        logger.log = noted

    def _note(self, name, value):
        self.values_of.setdefault(name, []).append(value)

    def run(self, updates):
        if not self.scheduled:
            self.runner.learn(updates)
            return
        for update in range(updates):
            self.optimizer.param_groups[0]["lr"] = self.schedule(update, 1)[0]
            self.runner.learn(1)

    def save(self, path):
        self.runner.save(str(path))

    def load(self, path):
        self.runner.load(str(path))

    def logged(self, name):
        return self.values_of.get(name, [])

    def everything(self):
        algorithm = self.runner.alg
        return [algorithm.actor.state_dict(), algorithm.critic.state_dict(), algorithm.learning_rate]

    def own_epochs(self):
        assert self.scheduled or self.runner.alg.schedule == "adaptive"
        return self.runner.alg.num_learning_epochs

    engine = property(lambda self: self.runner.adept.engine)
    advice = property(lambda self: self.runner.adept.advice())
    policy = property(lambda self: self.runner.alg.get_policy())
    optimizer = property(lambda self: self.runner.alg.optimizer)
    storage = property(lambda self: self.runner.alg.storage)

    @property
    def critic(self):
        return None if self.variant == "recurrent" else list(self.runner.alg.critic.parameters())

    def log_probs(self):
        """Pass one step of all environments after the other, as in the rollout."""
        storage, actor, columns = self.storage, self.policy, []
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
        return torch.stack(columns)

    def advantages(self):
        return self.storage.advantages

    def values(self):
        return self.runner.alg.critic(self.storage.observations)

    def returns(self):
        return self.storage.returns


HOST = RslRl
