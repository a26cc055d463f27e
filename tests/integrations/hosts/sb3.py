"""Stable-Baselines3 and sb3-contrib."""

import torch
from recording import Counting
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from adept.integrations.sb3 import AdeptCallback
from hosts.base import Host

ENVS, STEPS, BATCH = 2, 16, 8
ROLLOUT = STEPS * ENVS
MINIBATCHES = ROLLOUT // BATCH
ALGORITHMS = {"ppo": PPO, "maskable": MaskablePPO, "recurrent": RecurrentPPO}


class Rows(KVWriter):
    """Keep every dump of the logger."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def build(algorithm=PPO, env=None, **options):
    """Return a model with 7 epochs of 4 minibatches for each rollout of 16 steps of two environments."""
    torch.set_num_threads(1)
    options = {"n_steps": STEPS, "batch_size": BATCH, "gamma": 0.0, "n_epochs": 7, "seed": 1, "device": "cpu"} | options
    recurrent = algorithm is RecurrentPPO
    small = {"net_arch": [4]} | ({"lstm_hidden_size": 4} if recurrent else {}) | options.pop("policy_kwargs", {})
    env = DummyVecEnv([Counting] * ENVS) if env is None else env
    policy = options.pop("policy", "MlpLstmPolicy" if recurrent else "MlpPolicy")
    return algorithm(policy, env, policy_kwargs=small, **options)


class AtRolloutEnd(BaseCallback):
    """Calls a function when a rollout has ended."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self._function()


class SB3(Host):
    lag = 1

    def build(self):
        self.callback = None
        rate = (lambda left: self.rate * left) if self.scheduled else self.rate
        self.model = build(ALGORITHMS[self.variant], **{"learning_rate": rate, **self.settings})
        self._prepare()

    def _prepare(self):
        self.rows = Rows()
        self.model.set_logger(Logger(None, [self.rows]))

    def attach(self, given, **options):
        self.callback = AdeptCallback(given, **options)

    def before_steps(self, function):
        """Hook the optimiser when ADEPT has: it does so in every update."""
        self._before = function
        self._hook()

    def _hook(self):
        train = self.model.train

        def hooked():
            hook = self.optimizer.register_step_pre_hook(self._before)
            train()
            hook.remove()

        self.model.train = hooked

    def schedule(self, update, steps):
        return [self.rate * (1 - (update + 1) / self.updates if self.scheduled else 1)] * steps

    def run(self, updates):
        self.model.learn(updates * ROLLOUT, self.callback, reset_num_timesteps=False)

    def save(self, path):
        vars(self.model).pop("train", None)
        self.model.save(path)
        if self.callback:
            self._hook()

    def load(self, path):
        if self.rates:
            self.model.set_parameters(str(path))
            return
        self.model = type(self.model).load(path, env=DummyVecEnv([Counting] * ENVS))
        self._prepare()
        if self.callback:
            self._hook()

    def logged(self, name):
        return [row[name] for row in self.rows.rows if name in row]

    def everything(self):
        return self.policy.state_dict(), self.optimizer.state_dict()["state"]

    def own_epochs(self):
        return self.model.n_epochs

    engine = property(lambda self: self.callback.engine)
    advice = property(lambda self: self.callback.advice())
    policy = property(lambda self: self.model.policy)
    optimizer = property(lambda self: self.model.policy.optimizer)

    @property
    def critic(self):
        if self.variant == "recurrent":
            return None
        return [each for name, each in self.policy.named_parameters() if "value_net" in name]

    def _flat(self, values):
        return torch.as_tensor(values.reshape(ROLLOUT, -1))

    def values(self):
        with torch.no_grad():
            return self.policy.predict_values(self._flat(self.model.rollout_buffer.observations))

    def returns(self):
        return torch.as_tensor(self.model.rollout_buffer.returns)

    def advantages(self):
        return torch.as_tensor(self.model.rollout_buffer.advantages)

    def log_probs(self):
        """Pass one step after the other, all environments at once."""
        buffer, policy, found = self.model.rollout_buffer, self.policy, []
        with torch.no_grad():
            state = None
            for step in range(STEPS):
                given = [torch.as_tensor(buffer.observations[step])]
                if self.variant == "recurrent":
                    cells = (buffer.hidden_states_pi, buffer.cell_states_pi)
                    state = tuple(torch.as_tensor(cell[0]) for cell in cells) if state is None else state
                    given += [state, torch.as_tensor(buffer.episode_starts[step])]
                if self.variant == "maskable":
                    given.append(buffer.action_masks[step])
                distribution = policy.get_distribution(*given)
                if self.variant == "recurrent":
                    distribution, state = distribution
                found.append(distribution.log_prob(torch.as_tensor(buffer.actions[step]).long().flatten()))
        return torch.stack(found)


HOST = SB3
