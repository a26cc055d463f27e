"""The configuration of a run: what decides its numbers (`Config`), and how it is carried out (`Execution`)."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from adept.algorithms import ALGORITHMS, AUGMENTATION_NAMES
from adept.algorithms.stopping import held_out_rows, make_rules
from adept.hindsight.evaluation import GAINS_EVERY
from adept.names import check_reference, unknown_name
from adept.rules import RULES, Rule, make_rule
from adept.schedulers import SCHEDULERS, epoch_arms, make_scheduler
from adept.schedulers.validation import whole_number

LARGEST_COUNT, LARGEST_EPOCHS, LARGEST_ROLLOUT, LARGEST_NUMBER = 2**16, 1000, 2**24, 2**63
"""Environments, epochs, rows of a rollout, and any other number beyond which it is a mistake."""
BOUNDS: tuple[tuple[str, Callable[[Any], bool], tuple[str, ...]], ...] = (
    ("backend/name, for example minigrid/DoorKey-6x6", lambda value: "/" in value, ("env",)),
    ("a whole number ≥ 1", lambda value: isinstance(value, int) and value >= 1,
     ("steps", "environments", "rollout_length", "minibatch_size", "restart_every", "monitor_rows")),
    ("a whole number ≥ 0, where 0 is automatic", lambda value: isinstance(value, int) and value >= 0,
     ("monitor_every",)),
    ("a whole number ≥ 0", lambda value: isinstance(value, int) and value >= 0, ("levels", "seed")),
    ("a number > 0 and ≤ 1", lambda value: 0 < value <= 1, ("learning_rate", "clip_range")),
    ("a number > 0", lambda value: 0 < value < math.inf, ("max_gradient_norm",)),
    ("a number ≥ 0", lambda value: 0 <= value < math.inf,
     ("entropy_coefficient", "value_coefficient", "augmentation_coefficient")),
    ("between 0 and 1", lambda value: 0 <= value <= 1, ("discount", "gae_coefficient")),
    (f"at most {LARGEST_COUNT:,}", lambda value: value <= LARGEST_COUNT, ("environments",)),
    (f"at most {LARGEST_EPOCHS:,}", lambda value: value <= LARGEST_EPOCHS, ("epochs",)),
    (f"at most {LARGEST_EPOCHS:,} epochs each", lambda value: max(value, default=0) <= LARGEST_EPOCHS, ("arms",)),
)  # fmt: skip
"""What a value must be, whether one is that, and the keys that it holds for."""
RewardSource = Literal["gae-return", "episode-return"]
NetworkName = Literal["auto", "impala", "impala-small", "nature", "minigrid", "mlp"]
DEFAULT_ARMS = (4, 2, 1)
"""Arms of a bandit without a preset; the first is the K of everything else."""
FORMER_KEYS = {"watch": "monitor", "watch_every": "monitor_every", "watch_rows": "monitor_rows"}
"""Former keys of configurations, and their present names."""
FORMER_OPTIONS = {"dear": "optimize_for"}
"""The same of scheduler options."""


@dataclass(frozen=True)
class Config:
    """Everything that decides the numbers of a run. Equal configurations give equal numbers on one machine."""

    env: str
    """environment as backend/name, for example minigrid/DoorKey-6x6, procgen/bigfish or gymnasium/CartPole-v1"""
    algo: str = "ppo"
    """algorithm that updates the agent: ppo or drac"""
    scheduler: str = "fixed"
    """what sets the update epochs: fixed, a rule for epochs and learning rate (hindsight, kl-rate), or
    a bandit over the arms: the paper's (ucb, thompson, round-robin), standardized-ucb, standardized-thompson, or
    package.module:Class; `adept train --scheduler NAME --help` lists its options"""
    epochs: int = 0
    """update epochs K of fixed, and those that a rule starts from; bandits choose among arms instead"""
    arms: tuple[int, ...] = ()
    """update epochs that a bandit chooses from, for example 10 5 1"""
    scheduler_options: dict[str, float | str] = field(default_factory=dict)
    """options of the scheduler by name, for example exploration 5; `adept train` has a flag for each"""
    reward_source: RewardSource = "gae-return"
    """reward of a bandit: the rollout's mean GAE return, or its mean episode return"""
    seed: int = 1
    """seed of every random generator"""
    steps: int = 500_000
    """environment steps in all, summed over the environments"""
    environments: int = 16
    """environments stepped in parallel"""
    rollout_length: int = 128
    """steps of each environment in one iteration"""
    minibatch_size: int = 256
    """rows of the rollout in one gradient step"""
    learning_rate: float = 1e-3
    """learning rate of Adam"""
    learning_rate_decay: bool = False
    """decay the learning rate linearly to 0 over the iterations"""
    discount: float = 0.99
    """discount of future rewards, gamma"""
    gae_coefficient: float = 0.95
    """lambda of generalised advantage estimation"""
    clip_range: float = 0.2
    """clip range of the policy ratio, and of the value if the value loss is clipped"""
    clip_value_loss: bool = True
    """clip the value loss as PPO does"""
    entropy_coefficient: float = 0.01
    """weight of the entropy bonus"""
    value_coefficient: float = 0.5
    """weight of the value loss"""
    max_gradient_norm: float = 0.5
    """largest gradient norm; longer gradients are scaled down to it"""
    stopping: dict[str, float] = field(default_factory=dict)
    """rules that end an update early, as name number pairs, for example target-kl 0.02, ratio-deviation 0.25 or
    held-out 0.125"""
    normalize_observations: bool = False
    """normalise observations by their running mean and standard deviation"""
    normalize_rewards: bool = False
    """divide rewards by the running standard deviation of the discounted return"""
    time_limit_ends: bool = False
    """treat time limits as terminations; without it, the value of the last observation is bootstrapped"""
    network: NetworkName = "auto"
    """network; auto goes by the shape of the observations"""
    levels: int = 200
    """Procgen only: train on levels 0 to this - 1; 0 means the full distribution"""
    augmentation: str = "crop"
    """DrAC only: the augmentation of every iteration, unless a scheduler chooses it"""
    augmentation_scheduler: str = ""
    """DrAC only: a bandit (ucb, …) that chooses among all eight augmentations each iteration"""
    augmentation_scheduler_options: dict[str, float] = field(default_factory=dict)
    """DrAC only: options of that bandit as name value pairs"""
    augmentation_coefficient: float = 0.1
    """DrAC only: weight of the regulariser"""
    restart_every: int = 100
    """iterations after which all environments restart, so that an interrupted run resumes exactly"""
    monitor: bool = True
    """measure updates on the next rollout (docs/hindsight.md); changes no other number"""
    monitor_every: int = 0
    """iterations between two measured updates; 0 is every 5th, more often in runs with fewer than 200, less often where
    that would take more than 5 % of the run"""
    monitor_rows: int = 2048
    """most rows of a rollout on which an update is measured, drawn at random"""

    def __post_init__(self) -> None:
        self._settle_epochs()
        for name in ("scheduler_options", "stopping", "augmentation_scheduler_options"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        if self.augmentation_scheduler:  # then the field is not used, and equal runs have equal configurations
            object.__setattr__(self, "augmentation", AUGMENTATION_NAMES[0])
        self._check_names()
        self._check_numbers()
        self._check_choices()
        self._check_sizes()

    def _settle_epochs(self) -> None:
        """Keep `arms` for a bandit and `epochs` for the others, so that equal runs have equal configurations."""
        if ":" not in self.scheduler and self.scheduler not in (known := (*SCHEDULERS, *RULES)):
            raise unknown_name("scheduler", self.scheduler, known)
        if self.is_bandit:
            if self.epochs and not self.arms:
                raise ValueError(
                    f"epochs {self.epochs} has no use with scheduler {self.scheduler!r}, which chooses among arms; "
                    "give arms, for example 4 2 1, or take scheduler fixed"
                )
            object.__setattr__(self, "arms", epoch_arms(self.arms or DEFAULT_ARMS))
            object.__setattr__(self, "epochs", 0)
            return
        if self.arms and not self.epochs:
            raise ValueError(
                f"arms {self.arms!r} are for a bandit, scheduler {self.scheduler!r} takes one number; give epochs, for "
                f"example {max(self.arms)}"
            )
        epochs = whole_number("epochs", self.epochs or max(DEFAULT_ARMS), at_least=1, example=4)
        object.__setattr__(self, "epochs", epochs)
        object.__setattr__(self, "arms", ())

    @property
    def is_bandit(self) -> bool:
        """Whether the scheduler chooses among arms."""
        return self.scheduler != "fixed" and self.scheduler not in RULES

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of epochs that an update may be asked for: the arms, or the one number K."""
        return self.arms or (self.epochs,)

    def _check_names(self) -> None:
        for name, allowed in (
            ("algo", tuple(ALGORITHMS)),
            ("reward_source", get_args(RewardSource)),
            ("network", get_args(NetworkName)),
            ("augmentation", AUGMENTATION_NAMES),
        ):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, str(getattr(self, name)), allowed)

    def _check_numbers(self) -> None:
        for allowed, fits, names in BOUNDS:
            for name in names:
                if not fits(value := getattr(self, name)):
                    raise ValueError(f"{name} must be {allowed}, got {value!r}")
        if self.batch_size > LARGEST_ROLLOUT:
            raise ValueError(
                f"a rollout of {self.environments:,} environments × {self.rollout_length:,} steps has "
                f"{self.batch_size:,} rows, at most {LARGEST_ROLLOUT:,} are allowed; lower one of the two"
            )
        if self.batch_size % self.minibatch_size:
            raise ValueError(
                f"minibatch_size {self.minibatch_size} does not divide the rollout of {self.batch_size} rows "
                f"({self.environments} environments × {self.rollout_length} steps); choose one that does"
            )
        if self.steps < self.batch_size:
            raise ValueError(f"steps {self.steps} is less than one rollout of {self.batch_size}; ask for more steps")

    def _check_choices(self) -> None:
        """Build what chooses and what stops, once, so that their own errors come before a run starts.

        A configuration may come from a stranger's file: a class that it names is imported by the trainer alone.
        """
        if ":" in self.scheduler:
            check_reference("scheduler", self.scheduler)
        else:
            self.rule(self.seed)
        if ":" in self.augmentation_scheduler:
            check_reference("augmentation_scheduler", self.augmentation_scheduler)
        elif self.augmentation_scheduler:
            options = self.augmentation_scheduler_options
            make_scheduler(self.augmentation_scheduler, AUGMENTATION_NAMES, seed=self.seed, **options)
        elif self.augmentation_scheduler_options:
            raise ValueError(
                f"augmentation_scheduler_options {self.augmentation_scheduler_options} have no scheduler to set; "
                "name an augmentation_scheduler, for example ucb"
            )
        make_rules(self.stopping)
        if share := self.stopping.get("held-out"):
            left = int((~held_out_rows(self.batch_size, self.environments, share, self.seed)).sum())
            if left < 2:
                raise ValueError(
                    f"held-out {share} leaves {left} of {self.batch_size} rows to train on, at least 2 are needed; "
                    "collect longer rollouts, or leave the rule out"
                )

    def _check_sizes(self) -> None:
        """Refuse numbers that a run's files could not be read back with."""
        for name, value in self.to_dict().items():
            numbers = value.values() if isinstance(value, dict) else [value]
            if any(isinstance(number, int | float) and abs(number) >= LARGEST_NUMBER for number in numbers):
                raise ValueError(f"{name} must be below 2^63 in size, got {str(value)[:40]}…")

    @property
    def backend(self) -> str:
        """The part of `env` before the slash."""
        return self.env.partition("/")[0]

    @property
    def task(self) -> str:
        """The part of `env` after the slash."""
        return self.env.partition("/")[2]

    @property
    def batch_size(self) -> int:
        """Rows of one rollout."""
        return self.environments * self.rollout_length

    @property
    def minibatches(self) -> int:
        """Gradient steps of one epoch."""
        return self.batch_size // self.minibatch_size

    @property
    def iterations(self) -> int:
        """Whole iterations within the budget of steps."""
        return self.steps // self.batch_size

    @property
    def monitor_interval(self) -> int:
        """Iterations between two measured updates, at least: about 40 of a run are measured, or all of fewer."""
        return self.monitor_every or max(1, min(GAINS_EVERY, self.iterations // 40))

    def rule(self, seed: int = 0) -> Rule:
        """Build what sets the updates."""
        for option in ("name", "arms", "epochs", "seed"):
            if option in self.scheduler_options:
                raise ValueError(f"scheduler_options has {option!r}, which is a key of its own; set that instead")
        given = {"name": self.scheduler, **self.scheduler_options}
        return make_rule(given, epochs=max(self.choices), arms=self.choices, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form, which `from_dict` reads and ids are made of."""
        return {entry.name: copy.deepcopy(getattr(self, entry.name)) for entry in dataclasses.fields(self)}

    def to_json(self) -> str:
        """Return the canonical text of this configuration."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the names that `from_dict` takes."""
        return (*(entry.name for entry in dataclasses.fields(cls)), "target_kl", *FORMER_KEYS)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """Build from parsed JSON or TOML; unknown and missing keys are errors."""
        known = cls.keys()
        for key in values:
            if key not in known:
                raise unknown_name("configuration key", key, known)
        if "env" not in values:
            raise ValueError("the configuration names no env; for example minigrid/DoorKey-6x6")
        return cls(**current_keys(values))

    @property
    def id(self) -> str:
        """Ten characters that stand for this configuration."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:10]


def current_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with today's keys; committed records and study files have older ones."""
    found = {FORMER_KEYS.get(key, key): value for key, value in values.items()}
    if (limit := found.pop("target_kl", None)) is not None:
        found["stopping"] = {"target-kl": limit, **found.get("stopping", {})}
    named = found.get("augmentation", "")
    if named in SCHEDULERS or ":" in named:
        found["augmentation_scheduler"] = found.pop("augmentation")
    if options := found.get("scheduler_options"):
        found["scheduler_options"] = {FORMER_OPTIONS.get(name, name): value for name, value in options.items()}
    for bandit in ("scheduler", "augmentation_scheduler"):
        options = found.get(f"{bandit}_options", {})
        if bandit in found and options.get("scale") == "auto":  # an option of ucb and thompson before they were exact
            found[bandit] = f"standardized-{found[bandit]}"
            found[f"{bandit}_options"] = {name: value for name, value in options.items() if name != "scale"}
    arms = found.get("arms")
    if arms is not None:
        found["arms"] = tuple(arms)
    chooser = found.get("scheduler")
    if arms and not found.get("epochs") and (chooser == "fixed" or chooser in RULES):
        found["epochs"] = max(found.pop("arms"))
    return found


@dataclass(frozen=True)
class Execution:
    """How a run is carried out. It may change speed and rounding, never what is computed."""

    device: str = "auto"
    """cpu, cuda, cuda:1, …; auto uses CUDA if there is a GPU"""
    fast: bool = True
    """use the fast paths for small networks; the reference gives the same numbers up to rounding"""
    threads: int = 1
    """threads of PyTorch; one per process and several processes is best for small networks"""
    env_threads: int = 1
    """threads of EnvPool"""

    def __post_init__(self) -> None:
        for name in ("threads", "env_threads"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise ValueError(f"{name} must be a whole number ≥ 1, got {getattr(self, name)!r}")
