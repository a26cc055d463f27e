"""PPO of Stable-Baselines3 on CartPole, with ADEPT: first advice alone, then control, saved and loaded.

    python examples/sb3_cartpole.py                              # advice, then hindsight adapts the learning rate
    python examples/sb3_cartpole.py --scheduler '[10, 5, 1]'     # advice, then standardized-ucb on these arms
    python examples/sb3_cartpole.py --scheduler ucb              # advice, then the paper's bandit, among 10, 5 and 1

Needs `pip install 'adept-rl[sb3]'`. The scheduler is a name, or JSON: a list of arms, or
'{"name": "hindsight", "optimize_for": "compute"}'.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from stable_baselines3 import PPO

from adept.integrations.sb3 import AdeptCallback


def scheduler(text: str) -> Any:
    """Return a list or mapping from JSON, or a name as it is."""
    return json.loads(text) if text.startswith(("[", "{")) else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--scheduler", type=scheduler, default="hindsight")
    options = parser.parse_args()

    # Advice alone: changes nothing, and prints advice on epochs and learning rate at the end.
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=1)
    model.learn(options.steps, callback=AdeptCallback())

    # Control: the callback also adapts the learning rate, or a bandit chooses the epochs.
    model.learn(options.steps, callback=AdeptCallback(options.scheduler), reset_num_timesteps=False)

    # Its state is saved with the model; a loaded model continues where it was.
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "cartpole")
        model = PPO.load(Path(folder) / "cartpole", env=model.get_env(), device="cpu")
    callback = AdeptCallback(options.scheduler)
    model.learn(options.steps, callback=callback, reset_num_timesteps=False)
    print({name: round(value, 2) for name, value in callback.engine.rule.diagnostics().items()})


if __name__ == "__main__":
    main()
