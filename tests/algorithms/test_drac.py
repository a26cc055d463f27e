from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from adept.algorithms import ALGORITHMS
from adept.algorithms.augmentations import AUGMENTATIONS
from adept.algorithms.autograd import Minibatch
from adept.algorithms.drac import DrAC, regularizer
from adept.algorithms.ppo import PPO
from adept.config import Config, Execution
from adept.envs.base import Continuous, Discrete
from adept.networks import Categorical, DiagonalGaussian, make_network
from adept.presets import preset
from adept.rules import Settings
from adept.runs.checkpoints import load_checkpoint
from adept.runs.records import read_iterations
from adept.runs.runner import run_one
from adept.seeding import stream_seed
from adept.training import Trainer

CPU = torch.device("cpu")
REFERENCE = Execution(fast=False)


def small(**settings: Any) -> Config:
    base: dict[str, Any] = {
        "env": "gymnasium/tiny/Picture-v0", "algo": "drac", "environments": 2, "rollout_length": 8,
        "minibatch_size": 8, "steps": 16 * 4, "scheduler": "round-robin", "arms": (2, 1), "restart_every": 3,
    }  # fmt: skip
    return Config(**base | settings)


def test_regularizer_by_hand() -> None:
    # Policies (3/4, 1/4) and (1/2, 1/2): KL = ¾ ln 1.5 + ¼ ln 0.5. Values 1 and 3: ½·4 = 2. Second row equal: 0.
    plain = torch.log(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
    augmented = torch.log(torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
    got = regularizer(Categorical(2), plain, torch.tensor([1.0, 2.0]), augmented, torch.tensor([3.0, 2.0]))
    assert float(got) == pytest.approx((0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 2 + 2.0 / 2)
    # Normal distributions of mean 0 and 1, deviation 1 and 2: ln 2 + (1 + 1)/8 - ½.
    gaussians = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, math.log(2.0)]])
    got = regularizer(DiagonalGaussian(1), gaussians[0], torch.zeros(1), gaussians[1], torch.zeros(1))
    assert float(got) == pytest.approx(math.log(2.0) + 0.25 - 0.5, rel=1e-5)


@pytest.mark.parametrize("kind", [Categorical(3), DiagonalGaussian(2)])
def test_the_plain_side_has_no_gradient(kind: Any) -> None:
    torch.manual_seed(0)
    plain, augmented = (torch.randn(4, kind.parameter_count, requires_grad=True) for _ in range(2))
    values, others = (torch.randn(4, requires_grad=True) for _ in range(2))
    regularizer(kind, plain, values, augmented, others).backward()
    assert plain.grad is values.grad is None
    assert augmented.grad is not None
    assert augmented.grad.any()
    assert others.grad is not None
    torch.testing.assert_close(others.grad, (others - values).detach() / 4)


@pytest.mark.parametrize("actions", [Discrete(4), Continuous((-1.0, -1.0), (1.0, 1.0))])
def test_loss_is_ppo_plus_the_weighted_regularizer_with_two_forward_passes(actions: Any) -> None:
    config = small()
    plan = Settings(1, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.01, augmentation="flip")
    network = make_network("impala", (3, 64, 64), actions, 0)
    torch.manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 64, 64), dtype=torch.uint8)
    chosen = network.distribution.mode(network.policy(images)).detach()
    batch = Minibatch(images, chosen, torch.zeros(6), torch.zeros(6), torch.randn(6), torch.randn(6))
    calls: list[int] = []
    network.register_forward_hook(lambda module, inputs, output: calls.append(len(inputs[0])))
    loss, metrics = DrAC(config, (3, 64, 64), CPU)(network, batch, plan)
    assert calls == [6, 6]
    plain, _ = PPO(config, (3, 64, 64), CPU)(network, batch, plan)
    generator = torch.Generator().manual_seed(stream_seed(config.seed, "augmentation"))
    again = AUGMENTATIONS["flip"](images, generator)
    expected = regularizer(network.distribution, *network(images), *network(again))
    torch.testing.assert_close(metrics["regularizer"], expected.detach())
    torch.testing.assert_close(loss, plain + 0.1 * expected)
    assert float(expected.detach()) > 0


def test_names_of_the_configuration_are_those_of_the_table() -> None:
    assert ALGORITHMS["drac"].augmentations == tuple(AUGMENTATIONS)
    with pytest.raises(ValueError, match="did you mean 'crop'"):
        small(augmentation="corp")


def test_the_papers_augmentation_follows_the_game() -> None:
    expected = {"coinrun": "random-conv", "bossfight": "flip", "caveflyer": "rotate", "ninja": "color-jitter"}
    for game, augmentation in expected.items():
        config = preset(f"procgen/{game}", "drac", "thompson")
        assert config.augmentation == augmentation
        assert not config.normalize_rewards
        assert config.scheduler_options == {"step_size": 0.1, "window": 50}


def test_pictures_are_needed() -> None:
    with pytest.raises(ValueError, match="augments colour images"):
        Trainer(small(env="gymnasium/CartPole-v1"), REFERENCE)


def test_two_bandits_run_side_by_side_and_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    config = small(augmentation_scheduler="ucb", scheduler="ucb", steps=16 * 5)
    run_one(config, tmp_path / "whole", REFERENCE)
    columns = read_iterations(tmp_path / "whole")
    names = list(AUGMENTATIONS)
    # The first five choices of UCB over eight arms that all start at 0 and are rarely left once they pay.
    chosen = [names[int(index)] for index in columns["augmentation"]]
    for step in range(5):
        for name in names:
            assert columns[f"augmentation_choices/{name}"][step] == chosen[: step + 1].count(name)
    assert set(columns["epochs"]) <= {1.0, 2.0}
    assert (columns["regularizer"] >= 0).all()

    class Stop(Exception):
        pass

    def stop(record: dict[str, float]) -> None:
        if record["iteration"] == 3:
            raise Stop

    with pytest.raises(Stop):
        run_one(config, tmp_path / "cut", REFERENCE, on_record=stop, checkpoint_seconds=0)
    run_one(config, tmp_path / "cut", REFERENCE)
    whole, cut = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "cut")
    assert whole is not None
    assert cut is not None
    assert whole[0]["engine"]["augmenter"] == cut[0]["engine"]["augmenter"]
    assert all((whole[1][name] == cut[1][name]).all() for name in whole[1])


@pytest.mark.slow
@pytest.mark.procgen
@pytest.mark.parametrize("scheduler", ["ucb", "thompson", "round-robin", "fixed"])
def test_a_short_real_run(scheduler: str, tmp_path: Path) -> None:
    from dataclasses import replace

    config = preset("procgen/coinrun", "drac", scheduler)
    config = replace(config, environments=8, rollout_length=32, minibatch_size=128, steps=8 * 32 * 3)
    summary = run_one(config, tmp_path / "run", test_episodes=0)
    assert summary["state"] == "done"
    columns = read_iterations(tmp_path / "run")
    assert (columns["regularizer"] > 0).all()
    assert summary["gradient_steps"] == int(columns["epochs"].sum()) * 2
