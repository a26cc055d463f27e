"""The PPO of sbx, which takes the callback of Stable-Baselines3."""

import jax
import numpy as np
import sbx
from recording import Counting
from stable_baselines3.common.vec_env import DummyVecEnv

from hosts.sb3 import BATCH, ENVS, SB3, STEPS


def build(**options):
    """Return a model of the sizes of that of Stable-Baselines3."""
    options = {"n_steps": STEPS, "batch_size": BATCH, "gamma": 0.0, "n_epochs": 7, "seed": 1} | options
    return sbx.PPO("MlpPolicy", DummyVecEnv([Counting] * ENVS), policy_kwargs={"net_arch": [4]}, **options)


class Sbx(SB3):
    critic = None

    def build(self):
        self.callback = None
        self.model = build(learning_rate=(lambda left: self.rate * left) if self.scheduled else self.rate)
        self._after = lambda: None
        self._prepare()

    def after_steps(self, function):
        self._after = function

    def _hook(self):
        model, one_update = self.model, self.model._one_update

        def hooked(*args, **kwargs):
            self.rates[-1].append(float(model.policy.actor_state.opt_state[1].hyperparams["learning_rate"]))
            found = one_update(*args, **kwargs)
            self.policy.actor_state = found[0][0]
            self._after()
            return found

        model._one_update = hooked

    def save(self, path):
        vars(self.model).pop("_one_update", None)
        self.model.save(path)
        self._hook()

    def copies(self):
        return float("nan")

    def take(self):
        return jax.tree.leaves(self.policy.actor_state.params)

    def put(self, values):
        tree = jax.tree.structure(self.policy.actor_state.params)
        self.policy.actor_state = self.policy.actor_state.replace(params=jax.tree.unflatten(tree, values))

    def log_probs(self):
        buffer, state = self.model.rollout_buffer, self.policy.actor_state
        logits = state.apply_fn(state.params, buffer.observations.reshape(-1, 3)).logits
        taken = buffer.actions.reshape(-1).astype(int)
        return np.asarray(jax.nn.log_softmax(logits))[np.arange(len(taken)), taken]

    def everything(self):
        states = (self.policy.actor_state, self.policy.vf_state)
        return [np.asarray(leaf) for state in states for leaf in jax.tree.leaves((state.params, state.opt_state))]


HOST = Sbx
