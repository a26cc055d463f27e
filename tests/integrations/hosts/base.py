"""What the runs of all frameworks have in common."""

import numpy as np
import torch
from recording import counting_means

PLAIN = object()
"""Given instead of a scheduler: a run without ADEPT."""


class Host:
    """A tiny run of one framework: it is built, attached to, and makes as many updates as told.

    `settings` are the framework's own, `options` those of `attach`. A subclass has the numbers below, `build`,
    `attach`, `run`, `save`, `load`, `logged`, `everything`, `own_epochs`, `engine`, `advice`, `optimizer`, `policy`;
    and for the oracle `log_probs`, `advantages`, `values`, `returns`: of the rollout in the framework's own storage,
    under the parameters in place.
    """

    steps = 16
    epochs = 7
    minibatches = 4
    rate = 0.01
    lag = 0
    """updates whose numbers are not in the log when the run ends"""

    def __init__(self, folder, variant, given=PLAIN, *, scheduled=False, updates=4, settings=None, **options):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        np.random.seed(2)  # noqa: NPY002 (some shuffle with it)
        self.folder, self.variant, self.scheduled, self.updates = folder, variant, scheduled, updates
        self.settings = settings or {}
        self.rates, self.feedback, self.evaluated, self.held = [], [], [], []
        self.build()
        if given is not PLAIN:
            self.attach(given, **{"verbose": 0, **options})
            self._watch()
            self.before_steps(self._note_rate)

    def _watch(self):
        engine = self.engine
        begin, finished = engine.begin, engine.finished

        def begun(*args, **kwargs):
            self.rates.append([])
            settings = begin(*args, **kwargs)
            self.feedback.append(engine.feedback)
            rows = args[0] if args else kwargs.get("rows")
            self.evaluated.append(0 if rows is None else int(np.prod(np.shape(rows.advantages))))
            return settings

        def ended(*args, **kwargs):
            finished(*args, **kwargs)
            self.held.append(self.copies())

        engine.begin, engine.finished = begun, ended

    def _note_rate(self, optimizer, *_):
        self.rates[-1].append(float(optimizer.param_groups[0]["lr"]))

    def before_steps(self, function):
        """Have a function called before every step of the optimiser, with the learning rate of the step in place."""
        self.optimizer.register_step_pre_hook(function)

    def after_steps(self, function):
        """Have a function called after every step of the optimiser."""
        self.optimizer.register_step_post_hook(function)

    def copies(self):
        """Return how many copies of what is evaluated the engine holds."""
        evaluator = self.engine._evaluator
        if evaluator.start is None:
            return 0
        sizes = [sum(each.numel() for _, each in copy) for copy in (evaluator.start, *evaluator.marked.values())]
        return sum(sizes) / sizes[0]

    def rewards(self, updates):
        """Return the mean reward of each rollout of a run that begins with its environments."""
        return counting_means(updates, self.steps)

    def schedule(self, update, steps):
        """Return the scheduled learning rates of the steps of an update, the first being 0."""
        return [self.rate * (1 - update / 5 if self.scheduled else 1)] * steps

    def take(self):
        """Return copies of the policy's parameters."""
        return [parameter.detach().clone() for parameter in self.actor]

    def put(self, values):
        """Set the policy's parameters."""
        for parameter, value in zip(self.actor, values, strict=True):
            parameter.data.copy_(value)

    @property
    def actor(self):
        """The policy's parameters."""
        return list(self.policy.parameters())

    def optimized(self):
        """Return all parameters that are optimised."""
        return [*self.actor, *(self.critic or [])]

    critic = None
    """the critic's own parameters, as a list; None where they are not evaluated"""
