"""The schema of a run's records: name, unit, meaning, digits and TensorBoard tag of every column, in one table.

A number is added here and where it is computed, and nowhere else: tracking, packing, report and docs read this table.
`python -m adept.records` prints it as docs/training.md shows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

DIGITS = 4
"""Significant digits that packed records keep of a column, unless the table gives another number."""


@dataclass(frozen=True)
class Column:
    """One column, or a family of them: {…} in the name stands for an arm, an epoch, a length or a number's name."""

    name: str
    meaning: str
    unit: str = ""
    digits: int | None = DIGITS
    """significant digits that packed records keep; None: all of them"""
    tag: str | None = ""
    """name in TensorBoard and Weights & Biases; empty: adept/NAME; None: not shown there"""
    report: bool = False
    """whether reports and advice read it"""
    former: tuple[str, ...] = field(default=(), compare=False)
    """names of it in records that were written before"""

    def __post_init__(self) -> None:
        if self.tag == "":
            object.__setattr__(self, "tag", f"adept/{self.name}")

    def member(self, name: str) -> dict[str, str] | None:
        """Return what {…} stands for in a name of this family; None where it is of another."""
        found = re.fullmatch(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(self.name)), name)
        return found.groupdict() if found else None


COLUMNS = (
    Column("iteration", "iterations so far: one is a rollout and an update", digits=None, tag=None, report=True),
    Column("step", "environment steps so far", "steps", None, tag=None, report=True),
    Column("epochs", "epochs set for this update", "epochs", None, report=True),
    Column("epochs_done", "epochs made; fewer if a rule stopped the update", "epochs", None, report=True),
    Column("gradient_steps", "gradient steps so far", digits=None),
    Column("reward", "reward credited to a bandit's previous choice", digits=7),
    Column("gae_return", "mean of advantage + value over the rollout: the paper's reward", "return", 7),
    Column("episode_return", "mean return of the episodes that ended in this rollout", "return", 7,
           tag="charts/episodic_return"),
    Column("episode_length", "mean length of the episodes that ended in this rollout", "steps", 7,
           tag="charts/episodic_length"),
    Column("episodes", "episodes that ended so far", digits=None, tag=None),
    Column("score", "mean return of the last 100 episodes", "return", 7, tag="charts/mean_return_of_last_100_episodes",
           report=True),
    Column("explained_variance", "share of the returns' variance that the values explain, before the update", digits=7,
           tag="losses/explained_variance", report=True),
    Column("learning_rate", "learning rate of this update's last gradient step", digits=7, tag="charts/learning_rate",
           report=True),
    Column("policy_loss", "policy loss, mean over all minibatches", tag="losses/policy_loss"),
    Column("value_loss", "value loss, likewise", tag="losses/value_loss"),
    Column("entropy", "entropy of the policy, likewise", "nats", tag="losses/entropy"),
    Column("approx_kl", "estimated KL from the policy before the update, likewise", "nats", tag="losses/approx_kl"),
    Column("clip_fraction", "share of clipped ratios, likewise", tag="losses/clipfrac"),
    Column("gradient_norm", "norm of the gradient before it is clipped, likewise", tag="losses/gradient_norm"),
    Column("regularizer", "DrAC: its regulariser, likewise", tag="losses/regularizer"),
    Column("ratio_deviation", "mean of abs(ratio - 1), likewise; with the rule that stops by it",
           tag="losses/ratio_deviation"),
    Column("approx_kl_last_epoch", "`approx_kl` of the last epoch alone", "nats", tag="losses/approx_kl_last_epoch",
           report=True),
    Column("flops", "FLOPs so far: sampling, updating and measuring updates", "FLOPs", None, report=True),
    Column("monitor_flops", "the part of `flops` that measured updates", "FLOPs", None, report=True),
    Column("seconds", "wall time so far", "s", 7, tag=None),
    Column("processor_seconds", "processor time of all threads so far", "s", 7, tag=None, report=True),
    Column("environment_seconds", "time in the environments, in this iteration", "s", tag=None),
    Column("inference_seconds", "time between two steps of the environments, in this iteration", "s", tag=None),
    Column("update_seconds", "time of the update", "s", tag=None),
    Column("monitor_seconds", "time of measuring the last update", "s", former=("watch_seconds",)),
    Column("arm_choices/{arm}", "bandit: how often an arm was chosen"),
    Column("arm_value/{arm}", "bandit: value of an arm"),
    Column("arm_score/{arm}", "bandit: the number by which arms are compared"),
    Column("arm_{number}", "bandit: its other numbers"),
    Column("rule_distance", "hindsight: the KL that updates aim at", former=("controller_distance",)),
    Column("rule_z", "hindsight: the pooled slope Z that moved it", "standard errors", former=("controller_z",)),
    Column("rule_critic", "hindsight: the critic's own factor", former=("controller_critic",)),
    Column("rule_{number}", "a rule's other numbers"),
    Column("lr_scale", "factor of a rule on the learning rate", report=True, former=("stride",)),
    Column("critic_lr_scale", "the same for parameters of the critic alone", report=True, former=("critic_stride",)),
    Column("augmentation", "DrAC: index of the augmentation"),
    Column("augmentation_{number}", "DrAC: numbers of the bandit over augmentations"),
    Column("slope", "derivative of the return along the last update, at its end"),
    Column("slope_z", "the same in standard errors: positive if the update stopped short", "standard errors",
           report=True),
    Column("critic_slope", "share of the update by which the critic should have gone further", "share of the update",
           report=True),
    Column("critic_slope_z", "the same in standard errors", "standard errors", report=True),
    Column("update_gain", "gain of the last update", "standard deviations of the advantage", report=True,
           former=("update_worth",)),
    Column("gain/x{length}", "gain of a step of {length} times its length", "standard deviations of the advantage",
           report=True),
    Column("gain/{epoch}", "gain of its first epochs: powers of two, and the arms",
           "standard deviations of the advantage", report=True),
)  # fmt: skip
"""Every column; of two that cover a name the first one counts."""

_NAMED = {column.name: column for column in COLUMNS}
_FORMER = {former: column.name for column in COLUMNS for former in column.former}


@lru_cache(maxsize=4096)
def column(name: str) -> Column:
    """Return the column of a name; an algorithm of one's own may record others, which are shown under adept/."""
    if name in _NAMED:
        return _NAMED[name]
    families = (each for each in COLUMNS if "{" in each.name and each.member(name))
    return next(families, Column(name, "a number of an algorithm's own"))


def tag_of(name: str) -> str:
    """Return the name of a column in TensorBoard and Weights & Biases; empty where it is not shown there."""
    found = column(name)
    tag = found.tag or ""
    return tag.format(**(found.member(name) or {})) if "{" in found.name else tag


def current_name(name: str) -> str:
    """Return the present name of a column; committed records have older names."""
    return _FORMER.get(name, name)


def markdown() -> str:
    """Return the table as a list in Markdown, with units, and with tags that are not `adept/NAME`."""
    lines = []
    for each in COLUMNS:
        unit = "" if re.search(rf"\b{each.unit}\b", each.meaning, re.IGNORECASE) else each.unit
        tag = "not shown" if not each.tag else "" if each.tag == f"adept/{each.name}" else f"`{each.tag}`"
        lines.append(f"- `{each.name}`: {'; '.join(filter(None, (each.meaning, unit, tag)))}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from adept.terminal import say

    say(markdown().removesuffix("\n"))
