"""PPO of TorchRL on CartPole, with ADEPT.

    python examples/torchrl_cartpole.py                           # advice at the end; changes nothing
    python examples/torchrl_cartpole.py --scheduler hindsight     # also adapts the learning rate
    python examples/torchrl_cartpole.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[torchrl]'`.
"""

import argparse

import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymEnv
from torchrl.modules import ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.trainers.algorithms.ppo import PPOTrainer

from adept.integrations.torchrl import attach


def network(outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()
    steps = arguments.steps

    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(network(2), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"],
            out_keys=["action"],
            distribution_class=torch.distributions.OneHotCategorical,
            return_log_prob=True,
        ),
    )
    loss = ClipPPOLoss(actor, ValueOperator(network(1), in_keys=["observation"]))
    trainer = PPOTrainer(
        collector=Collector(GymEnv("CartPole-v1"), actor, frames_per_batch=2048, total_frames=steps),
        total_frames=steps,
        frame_skip=1,
        optim_steps_per_batch=None,
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), lr=1e-3),
        replay_buffer=TensorDictReplayBuffer(
            storage=LazyTensorStorage(2048), sampler=SamplerWithoutReplacement(), batch_size=64
        ),
        progress_bar=False,
    )

    # `attach(trainer)` for advice alone, `attach(trainer, "hindsight")` to adapt the learning rate.
    attach(trainer, arguments.scheduler)

    trainer.train()


if __name__ == "__main__":
    main()
