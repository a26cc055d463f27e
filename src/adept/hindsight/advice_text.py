"""Advice in words: one template per finding and action, with the options of each host."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adept.hindsight.stages import MAX_FIRST_ORDER_KL, MIN_CHANGE, MIN_UPDATES, USUAL_KL, WHOLE, Stage
from adept.names import unknown_name

if TYPE_CHECKING:
    from adept.hindsight.advice import Recommendation

USUAL = f"{USUAL_KL[0]} to {USUAL_KL[1]} is usual"
DIRECTIONS = {"short": "stop short", "over": "overshoot", "right": "about right"}


@dataclass(frozen=True)
class Host:
    """What the user of a host writes to follow advice; empty where the host has no such option."""

    hindsight: str
    """asks for the hindsight controller"""
    hindsight_compute: str
    """the same with fewer epochs"""
    learning_rate: str = ""
    """option of the learning rate, with {} for its value"""
    epochs: str = ""
    """option of the epochs of an update, with {} for their number"""
    kl_limit: str = ""
    """option of the KL that ends an update"""
    scale_rewards: str = ""
    """divides rewards, or returns, by their scale"""
    usual_kl: bool = True
    """whether the usual KL of PPO's updates applies; that of language models is far smaller"""


def _attached(what: str, **options: str | bool) -> Host:
    """Return a framework to which ADEPT is attached with a call."""
    compute = f'attach({what}, {{"name": "hindsight", "optimize_for": "compute"}})'
    return Host(f'attach({what}, "hindsight")', compute, **options)  # type: ignore[arg-type]


HOSTS: Mapping[str, Host] = {
    "trainer": Host(
        "--scheduler hindsight", "--scheduler hindsight --optimize-for compute", "--learning-rate {}", "--epochs {}",
        kl_limit="--stopping target-kl", scale_rewards="--normalize-rewards",
    ),
    "own-loop": Host("Hindsight(policy)", 'Hindsight(policy, optimize_for="compute")'),
    "sb3": Host(
        'AdeptCallback("hindsight")', 'AdeptCallback({"name": "hindsight", "optimize_for": "compute"})',
        "learning_rate={}", "n_epochs={}", kl_limit="target_kl", scale_rewards="VecNormalize",
    ),
    "rllib": _attached("config", learning_rate="lr={}", epochs="num_epochs={}"),
    "torchrl": _attached("trainer", learning_rate="lr={}", epochs="num_epochs={}", scale_rewards="RewardScaling"),
    "tianshou": _attached(
        "algorithm", learning_rate="lr={}", epochs="update_step_num_repetitions={}",
        scale_rewards="return_scaling=True",
    ),
    "skrl": _attached(
        "agent", learning_rate="learning_rate={}", epochs="learning_epochs={}", kl_limit="kl_threshold",
        scale_rewards="rewards_shaper",
    ),
    "rsl_rl": _attached("runner", learning_rate="learning_rate={}", epochs="num_learning_epochs={}"),
    "trl": _attached("trainer", learning_rate="learning_rate={}", epochs="num_iterations={}", usual_kl=False),
}  # fmt: skip
"""Hosts by name. A new one is a line here."""


def host_named(name: str) -> Host:
    """Return a host by its name."""
    if name not in HOSTS:
        raise unknown_name("host", name, HOSTS)
    return HOSTS[name]


def sentence(each: Recommendation, host: str) -> str:
    """Return what was found and what to do about it, in the words of a host."""
    return f"{_finding(each)} {_action(each, host_named(host))}".rstrip()


def headline(found: Stage) -> str:
    """Return the direction of a stage in a few words; empty where it has none."""
    if found.direction not in DIRECTIONS:
        return ""
    slope = f"slope z {found.slope.value:+.1f} ± {found.slope.error:.1f}" if found.slope.updates else ""
    kl = "" if math.isnan(found.kl) else f"KL {found.kl:.2g}"
    return f"{DIRECTIONS[found.direction]} ({', '.join(filter(None, (slope, kl)))})"


def _finding(each: Recommendation) -> str:
    """Return what was found, with its numbers."""
    n = each.numbers
    if each.finding == "collapse" and "best" not in n:
        return (
            f"The policy hardly moves (median KL {n['usual_kl']:.2g}) since the KL jumped to {_kl(n)} in iteration "
            f"{n['iteration']:.0f}: it is saturated."
        )
    if each.finding == "collapse":
        return (
            f"The return collapsed from {n['best']:.4g} to {n['end']:.4g} after the KL jumped to "
            f"{_kl(n)} in iteration {n['iteration']:.0f} (median before: {n['usual_kl']:.2g})."
        )
    if each.finding == "idle-epochs":
        return _idle(n)
    if each.finding == "fewer-epochs":
        return "Fewer epochs move the policy less."
    if each.finding == "unexplained-returns":
        return (
            f"The critic explains nothing of the returns (median explained variance {n['explained_variance']:.2f}), so "
            "that advantages are mostly noise. This is expected before any reward is found and once returns hardly "
            "vary."
        )
    if each.finding == "critic-lags":
        lags = f"the critic lags: its updates should be {n['length']:.2g} times as long"
        return f"{_subject(each, lags)} (mean slope z {n['slope']:+.2f} ± {n['slope_error']:.2f})."
    if each.finding == "controlled":
        return f"The controller's scale is {n['lr_scale']:.2g} at the end."
    if each.finding in ("few-updates", "nothing-clear"):
        return _unclear(each, n)
    return _length(each, n)


def _length(each: Recommendation, n: Mapping[str, float]) -> str:
    """Return a finding on the length of updates."""
    measured = []
    if "slope" in n:
        measured.append(f"mean slope z {n['slope']:+.2f} ± {n['slope_error']:.2f} over {n['updates']:.0f} updates")
    if each.finding in ("low-kl", "high-kl"):
        means = f" ({measured[0]})" if measured and each.finding == "low-kl" else ""
        long = f"; above {MAX_FIRST_ORDER_KL} slopes and gains say little" if each.finding == "high-kl" else ""
        verb = "overshoot: they move" if each.finding == "high-kl" else "move"
        return f"{_subject(each, f'updates {verb} the policy by a KL of {_kl(n)}')}; {USUAL}{long}{means}."
    if "kl" in n:
        measured.append(f"median KL {_kl(n)}")
    said = {"stop-short": "stop short", "overshoot": "overshoot", "right-length": "are about as long as they should be"}
    gain = f": they gain {_percent(n, 'gain')} of a standard deviation of the advantage" if "gain" in n else ""
    more = ""
    if each.finding == "stop-short" and "longer" in n:
        more = f"; a step twice as long would add {_percent(n, 'longer')}"
    if each.finding == "overshoot" and "shorter" in n:
        more = f"; half the step would add {_percent(n, 'shorter')}"
    alone = " No third of it alone shows this." if each.stage == "average" else ""
    if each.finding == "stop-short" and each.action == "keep" and n.get("kl", 0) > USUAL_KL[1] / MIN_CHANGE**2:
        alone += f" Their KL is near {USUAL_KL[1]}, above which runs collapse on some tasks: keep the learning rate."
    return f"{_subject(each, f'updates {said[each.finding]}')} ({', '.join(measured)}){gain}{more}.{alone}"


def _idle(n: Mapping[str, float]) -> str:
    first, last = int(n["first"]), int(n["epochs"])
    which = f"Epoch {last} adds" if first == last else f"Epochs {first} to {last} add"
    cost = []
    if "update_seconds" in n:
        cost.append(f"{n['idle_seconds']:.0f} of {n['update_seconds']:.0f} s of updates")
    if "idle_flops" in n:
        cost.append(f"{n['idle_flops']:.2g} FLOPs")
    took = f" They took {' and '.join(cost)}." if cost else ""
    before = "epoch" if first == 2 else f"{first - 1}"
    return f"{which} {_percent(n, 'rest')} to the gain of the first {before}.{took}"


def _unclear(each: Recommendation, n: Mapping[str, float]) -> str:
    updates = int(n["updates"])
    kl = f"Updates move the policy by a KL of {_kl(n)}; {USUAL}. " if "kl" in n else ""
    if each.finding == "nothing-clear":
        return f"{kl}{updates} judged updates show nothing clear."
    said = {0: "No update was", 1: "Only 1 update was"}.get(updates, f"Only {updates} updates were")
    return f"{kl}{said} judged: {f'slopes need {MIN_UPDATES}' if kl else 'too few to say anything'}."


def _action(each: Recommendation, host: Host) -> str:
    """Return what to do, with the host's own options; empty where nothing is to be done."""
    n = each.numbers
    if each.action == "learning-rate":
        option = _option(host.learning_rate, n.get("learning_rate"))
        change = f"by {each.factor:.2g}" if each.factor > 1 else f"by 1/{1 / each.factor:.2g}"
        other = "" if each.finding == "fewer-epochs" else f", or use `{host.hindsight}`"
        return f"Multiply the learning rate {change}{option}{other}."
    if each.action == "epochs":
        count = f"{n['new_epochs']:.0f} epoch{'s' if n['new_epochs'] > 1 else ''}"
        return f"Use {count}{_option(host.epochs, n['new_epochs'])}, or `{host.hindsight_compute}`."
    if each.action == "kl-limit":
        return (
            f"A KL stop ends most updates early ({n['epochs_done']:.2g} of {n['epochs']:.2g} epochs on average). "
            f"Multiply its limit by {each.factor:.2g}{_option(host.kl_limit)}; a larger learning rate would only end "
            "updates sooner."
        )
    if each.action == "scale-rewards":
        return f"Divide rewards by their scale{_option(host.scale_rewards)}, or use `{host.hindsight}`."
    if each.action == "hindsight":
        both = "One learning rate does not serve both: use" if each.finding in ("stop-short", "overshoot") else "Use"
        return f"{both} `{host.hindsight}`."
    return ""


def _option(option: str, value: float | None = None) -> str:
    """Return a host's option in brackets, with a value where it is known; empty where there is no such option."""
    if not option:
        return ""
    name, _, _ = option.partition("{}")
    return f" (`{name.rstrip(' =')}`)" if value is None else f" (`{option.format(f'{value:.3g}')}`)"


def _subject(each: Recommendation, said: str) -> str:
    """Return a sentence's beginning, with the stage of the run that it is about."""
    if each.stage == WHOLE:
        return f"{said[0].upper()}{said[1:]}"
    if each.stage == "average":
        return f"On average over the run {said}"
    return f"In {'' if each.stage.startswith('every') else 'the '}{each.stage} of the run {said}"


def _kl(n: Mapping[str, float]) -> str:
    return f"{n['kl']:.2g}" if "kl" in n else "infinity"


def _percent(n: Mapping[str, float], name: str) -> str:
    return f"{100 * n[name]:.2f} ± {100 * n[f'{name}_error']:.2f} %"
