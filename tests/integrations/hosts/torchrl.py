"""TorchRL's PPOTrainer."""

import warnings

import torch
from recording import Counting
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torchrl.checkpoint import Checkpoint
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE
from torchrl.trainers import LRSchedulerHook
from torchrl.trainers.algorithms.ppo import PPOTrainer

from adept.integrations.torchrl import attach
from hosts.base import Host

STEPS, BATCH, CONFIGURED = 16, 4, 5
MINIBATCHES = STEPS // BATCH


class Lines:
    """A logger that keeps what it is given."""

    def __init__(self):
        self.values = {}

    def log_scalar(self, name, value, step=None):
        self.values.setdefault(name, []).append(float(value))


def networks(*, norm=False):
    """Return an actor and a critic of one layer, the critic with batch normalisation before it if asked for."""
    logits = TensorDictModule(torch.nn.Linear(3, 2), in_keys=["observation"], out_keys=["logits"])
    sample = ProbabilisticTensorDictModule(
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=torch.distributions.OneHotCategorical,
        return_log_prob=True,
    )
    value = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)) if norm else torch.nn.Linear(3, 1)
    return ProbabilisticTensorDictSequential(logits, sample), ValueOperator(value, ["observation"])


def build(updates, *, kind=PPOTrainer, loss=ClipPPOLoss, norm=False, **options):
    """Return a trainer for so many updates."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    actor, critic = networks(norm=norm)
    loss_module = loss(actor, critic)
    if norm:
        options["gae"] = GAE(gamma=0.0, lmbda=0.95, value_network=loss_module.critic_network, deactivate_vmap=True)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(
            collector=Collector(GymWrapper(Counting()), actor, frames_per_batch=STEPS, total_frames=1000 * STEPS),
            total_frames=updates * STEPS,
            frame_skip=1,
            optim_steps_per_batch=None,
            loss_module=loss_module,
            optimizer=optimizer,
            num_epochs=CONFIGURED,
            replay_buffer=TensorDictReplayBuffer(
                storage=LazyTensorStorage(STEPS), sampler=SamplerWithoutReplacement(), batch_size=BATCH
            ),
            **({} if norm else {"gamma": 0.0}),
            progress_bar=False,
            enable_logging=False,
            log_interval=0,
            **options,
        )


class TorchRL(Host):
    """The variant says what the learning-rate schedule counts: batches, or the 20 steps of a batch as configured."""

    epochs, minibatches = CONFIGURED, MINIBATCHES

    def build(self):
        self.lines, self.batches = Lines(), []
        options = self.settings | ({"checkpoint": Checkpoint()} if self.variant == "optim" else {})
        self.trainer = build(1, logger=self.lines, save_trainer_file=self.folder / f"own-{self.variant}", **options)
        if self.scheduled:
            decay = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.97**step)
            LRSchedulerHook(decay, interval=self.variant).register(self.trainer)
        self.trainer.collector.shutdown = lambda *_, **__: None  # it goes on in the next run

    def attach(self, given, **options):
        attach(self.trainer, given, **options)
        optim_steps = self.trainer.optim_steps

        def seen(batch):
            self.batches.append(batch)
            optim_steps(batch)

        self.trainer.optim_steps = seen

    def schedule(self, update, steps):
        made = update * (1 if self.variant == "batch" else CONFIGURED * MINIBATCHES)
        return [self.rate * (0.97**made if self.scheduled else 1)] * steps

    def run(self, updates):
        self.trainer.total_frames = self.trainer.collected_frames + updates * STEPS
        self.trainer.train()

    def save(self, path):
        self.trainer.save_trainer_file = path
        self.trainer.save_trainer(force_save=True)

    def load(self, path):
        self.trainer.load_from_file(path)

    def logged(self, name):
        return self.lines.values.get(name, [])

    def everything(self):
        return self.trainer.loss_module.state_dict(), self.trainer.optimizer.state_dict()

    def own_epochs(self):
        return self.trainer.num_epochs

    engine = property(lambda self: self.trainer.adept.engine)
    advice = property(lambda self: self.trainer.adept.advice())
    optimizer = property(lambda self: self.trainer.optimizer)

    def _leaves(self, part):
        """Return the weight and the bias of the one linear layer of a network."""
        found = dict(getattr(self.trainer.loss_module, f"{part}_network_params").flatten_keys(".").items())
        return [next(value for name, value in found.items() if name.endswith(end)) for end in ("weight", "bias")]

    actor = property(lambda self: self._leaves("actor"))
    critic = property(lambda self: self._leaves("critic"))

    def log_probs(self):
        weight, bias = self.actor
        logits = self.batches[-1]["observation"].reshape(-1, 3) @ weight.T + bias
        return (torch.log_softmax(logits, 1) * self.batches[-1]["action"].reshape(-1, 2)).sum(1)

    def advantages(self):
        """With a discount of 0 an advantage is a reward less a value."""
        return self.returns().reshape(-1) - self.values().reshape(-1)

    def values(self):
        weight, bias = self.critic
        return self.batches[-1]["observation"].reshape(-1, 3) @ weight.T + bias

    def returns(self):
        return self.batches[-1]["next", "reward"]


HOST = TorchRL
