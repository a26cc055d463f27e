"""PPO of TorchRL on CartPole: every update judged and, with `--scheduler`, the next one chosen.

Run `pip install 'adept-rl[torchrl]'`, then `python examples/torchrl_cartpole.py`.
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it updates are only judged")
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

    attach(trainer, arguments.scheduler)  # prints its advice at the end

    trainer.train()


if __name__ == "__main__":
    main()
