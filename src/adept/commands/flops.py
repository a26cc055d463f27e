"""`adept flops`: count the compute of an agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from adept.cli import loading, parse, print_json
from adept.config import Config
from adept.cost import epoch, iteration, measured_passes, ratio, sampling
from adept.envs import backend_of
from adept.options import Positional
from adept.presets import preset
from adept.terminal import flops as cost
from adept.terminal import make_console, table


@dataclass(frozen=True)
class FlopsOptions:
    """Count the compute of an agent, and what each arm saves against always using the largest."""

    env: Positional[str]
    """environment as backend/name, for example procgen/bigfish"""
    algo: str = "ppo"
    """algorithm that updates the agent: ppo or drac"""
    arms: tuple[int, ...] | None = None
    """numbers of update epochs to choose from; the preset's where none are given"""
    json: bool = False
    """print one JSON object, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(FlopsOptions, "flops", words)
    with loading("PyTorch"):
        from adept.runs.runner import check_run

        config = preset(options.env, options.algo, "ucb")
        config = replace(config, arms=options.arms or config.arms)
        check_run(config)  # what `adept train` refuses has no compute to count
        result = accounting(config)
    if options.json:
        print_json(result)
    else:
        show_flops(result)
    return 0


def accounting(config: Config) -> dict[str, Any]:
    """Return the compute of a configuration as one JSON-safe object; docs/studies.md explains its numbers."""
    from adept.flops import build_network, paper_forward_macs, pass_flops

    network, shape = build_network(config)
    (forward, policy, values), arms = pass_flops(network, shape), config.choices
    policy_rows, critic_rows = measured_passes(config)
    monitoring = policy_rows * policy + critic_rows * values
    result: dict[str, Any] = {
        "env": config.env,
        "algo": config.algo,
        "arms": list(arms),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "forward_flops": forward,
        "paper_forward_macs": paper_forward_macs(network),
        "minibatches": config.minibatches,
        "iterations": config.iterations,
        "sampling_flops": forward * sampling(config),
        "epoch_flops": forward * epoch(config),
        "monitor_flops": monitoring,
        "per_arm": {
            str(arm): {
                "iteration_flops": forward * iteration(config, arm),
                "run_flops": forward * iteration(config, arm) * config.iterations,
                "update_share": epoch(config) * arm / iteration(config, arm),
                "ratio": ratio(config, arm),
            }
            for arm in arms
        },
        "ratio_round_robin": ratio(config, sum(arms) / len(arms)),
    }
    minibatches = backend_of(config).paper_minibatches
    if minibatches is not None:
        result["paper"] = {
            "forward_macs": paper_forward_macs(network),
            "minibatches": minibatches,
            "ratio_round_robin": ratio(config, sum(arms) / len(arms), minibatches=minibatches),
        }
    return result


def show_flops(result: dict[str, Any]) -> None:
    """Print the compute of an agent."""
    console = make_console()
    forward, macs = result["forward_flops"], result["paper_forward_macs"]
    console.print(
        f"{result['env']} · {result['algo']} · {result['parameters']:,} parameters\n"
        f"forward pass of one observation: {forward:,} FLOPs (fully-connected layers alone: {macs:,} MACs)\n"
        f"one iteration: sampling {cost(result['sampling_flops'])}, an epoch {cost(result['epoch_flops'])}"
    )
    console.print(table(
        ("epochs", "per iteration", "per run", "of it updating", "of the largest arm"),
        [[arm, cost(values["iteration_flops"]), cost(values["run_flops"]), f"{values['update_share']:.1%}",
          f"{values['ratio']:.2%}"] for arm, values in result["per_arm"].items()],
        right_from=0,
    ))  # fmt: skip
    largest, monitoring = max(each["run_flops"] for each in result["per_arm"].values()), result["monitor_flops"]
    console.print(
        f"the arms in turn: {result['ratio_round_robin']:.2%} of the largest arm\n"
        f"monitoring comes on top: {cost(monitoring)} per run, {monitoring / (largest + monitoring):.1%} of FLOPs with "
        "the largest arm"
    )
    if "paper" in result:
        paper = result["paper"]
        console.print(f"with the paper's {paper['minibatches']} minibatches: {paper['ratio_round_robin']:.2%}")
