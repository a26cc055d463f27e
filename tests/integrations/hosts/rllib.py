"""A learner of RLlib on its own, which needs no cluster, on batches with known rows."""

import pickle

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from recording import Counting

from adept.integrations.rllib import attach
from hosts.base import Host

ROWS, MINIBATCH, CONFIGURED = 40, 4, 3


class RLlib(Host):
    """An update's batch has 40 rows, in the n-th one with a mean value target of n."""

    epochs, minibatches = CONFIGURED, ROWS // MINIBATCH

    def build(self):
        sizes = {"rows": ROWS, "minibatch": MINIBATCH, "planned": 0} | self.settings
        self.rows, self.minibatch, self.planned = sizes["rows"], sizes["minibatch"], sizes["planned"]
        self.minibatches = self.rows // self.minibatch
        lr = [[0, self.rate], [5 * ROWS, 0.0]] if self.scheduled else self.rate
        self._config = PPOConfig().environment(Counting).rl_module(model_config={"fcnet_hiddens": [4]})
        self._config.debugging(seed=1).training(gamma=0.0, num_epochs=CONFIGURED, lr=lr)
        self.made, self.results = 0, []
        self.learner = None

    def attach(self, given, **options):
        self.learner = attach(self._config, given, **options).build_learner(env=Counting())

    @property
    def module(self):
        self.learner = self.learner or self._config.build_learner(env=Counting())
        (module,) = (module.unwrapped() for _, module in self.learner.module.items())
        return module

    def columns_of(self, number):
        """Set and return the rows of a batch, by its number."""
        drawn = torch.Generator().manual_seed(number)
        targets = torch.randn(self.rows, generator=drawn)
        self.columns = {
            "obs": 2 * torch.rand(self.rows, 3, generator=drawn) - 1,
            "actions": torch.randint(2, (self.rows,), generator=drawn),
            "advantages": torch.randn(self.rows, generator=drawn),
            "value_targets": targets - targets.mean() + number,
            "vf_preds": torch.zeros(self.rows),
        }
        with torch.no_grad():
            self.columns["action_dist_inputs"] = self.module.forward_train(self.columns)["action_dist_inputs"]
        self.columns["action_logp"] = self.log_probs()
        return dict(self.columns)

    def run(self, updates):
        for _ in range(updates):
            self.made += 1
            batch = MultiAgentBatch({"default_policy": SampleBatch(self.columns_of(self.made))}, env_steps=self.rows)
            sizes = {"minibatch_size": self.minibatch, "num_epochs": CONFIGURED, "num_total_minibatches": self.planned}
            steps = {"num_env_steps_sampled_lifetime": ROWS * self.made}
            found = self.learner.update(batch=batch, timesteps=steps, shuffle_batch_per_epoch=True, **sizes)
            self.results.append(self.numbers(found["__all_modules__"]))

    def numbers(self, found):
        return {name: float(value.peek()) for name, value in found.items() if name.startswith("adept/")}

    def rewards(self, updates):
        return [float(number) for number in range(1, updates + 1)]

    def save(self, path):
        path.write_bytes(pickle.dumps(self.learner.get_state()))

    def load(self, path):
        self.learner.set_state(pickle.loads(path.read_bytes()))

    def logged(self, name):
        return [result[name] for result in self.results if name in result]

    def everything(self):
        return self.module.state_dict(), self.optimizer.state_dict()["state"]

    def own_epochs(self):
        return self.learner.config.num_epochs

    engine = property(lambda self: self.learner.engine)
    advice = property(lambda self: self.learner.engine.advice())
    policy = property(lambda self: self.module)
    optimizer = property(lambda self: self.learner.get_optimizer())

    @property
    def critic(self):
        return [*self.module.vf.parameters(), *self.module.encoder.critic_encoder.parameters()]

    def log_probs(self):
        with torch.no_grad():
            logits = self.module.forward_train({"obs": self.columns["obs"]})["action_dist_inputs"]
        return torch.log_softmax(logits, 1).gather(1, self.columns["actions"][:, None]).flatten()

    def advantages(self):
        return self.columns["advantages"]

    def values(self):
        with torch.no_grad():
            return self.module.compute_values({"obs": self.columns["obs"]}).flatten()

    def returns(self):
        return self.columns["value_targets"]


HOST = RLlib
