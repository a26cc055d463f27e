"""Mutated files: whatever stands in them, commands end in an answer or in one line, and a run ends whole or refused."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from adept.report import ReportOptions, build_report
from adept.report.loading import load_comparison
from adept.runs.runner import run_one
from adept.studies.results import load_results, pack
from tests.faults import mutations
from tests.faults.campaign import Campaign, Fault, command, contents, require_nothing_left
from tests.faults.kills import require_equal, run, small

Mutation = Callable[[bytes, random.Random], bytes]

STUDY = """
name = "tiny"
title = "A tiny study"
tasks = ["gymnasium/CartPole-v1"]
seeds = [1, 2]
baseline = "fixed-2"
criterion = "final-score"
differs = ["scheduler", "scheduler_options", "arms"]

[base]
environments = 2
rollout_length = 16
minibatch_size = 16
steps = 256
restart_every = 3
learning_rate = 0.001

[[methods]]
name = "fixed-2"
label = "PPO (K=2)"
scheduler = "fixed"
arms = [2]

[[methods]]
name = "round-robin"
scheduler = "round-robin"
arms = [2, 1]
"""

RUN_FILES: dict[str, Mutation] = {
    "config.json": mutations.of_json, "status": mutations.of_json, "machine.json": mutations.of_json,
    "energy.json": mutations.of_json, "iterations.csv": mutations.of_rows, "evaluation.csv": mutations.of_rows,
}  # fmt: skip
ENERGY = '{"schema": 1, "kwh": 0.5, "starts": [{"kwh": 0.5, "cpu_kwh": 0.5, "gpu_kwh": 0.0, "ram_kwh": 0.0}]}'
EVALUATION = (
    "iteration,step,levels,deterministic,seed,episodes,return_mean,return_std,length_mean\n"
    "8,256,test,False,0,100,1.5,0.5,20.0\n8,256,train,False,1,100,1.5,0.5,20.0\n"
)


def make_study(folder: Path) -> Path:
    """Run a tiny study in this process; return its folder."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(STUDY)
    for cell in load_results(folder).cells:
        cell.path.parent.mkdir(parents=True, exist_ok=True)
        run(cell.config, cell.path)
        (cell.path / "energy.json").write_text(ENERGY)
        (cell.path / "evaluation.csv").write_text(EVALUATION)
    return folder


def replaced(file: Path, content: bytes, rng: random.Random) -> None:
    """Put content into a file; now and then something that is no file takes its place."""
    kind = rng.randrange(30)
    if kind > 3:
        file.write_bytes(content)
        return
    file.unlink()
    if kind == 0:
        file.mkdir()
    elif kind == 1:
        os.mkfifo(file)
    elif kind == 2:
        file.symlink_to(file.name)


def readers(campaign: Campaign, study: Path, count: int) -> None:
    """Commands that read a study answer or refuse, change nothing, and import nothing that a file names."""
    rng = campaign.rng("readers")
    cell = load_results(study).cells[0]
    pristine = {file.name: file.read_bytes() for file in cell.path.iterdir() if file.is_file()}
    for _ in range(count):
        name = rng.choice(list(RUN_FILES))
        damaged = RUN_FILES[name](pristine[name], rng)
        replaced(cell.path / name, damaged, rng)
        with campaign.case(f"reading a study whose {name} is {damaged[:300]!r}"):
            before = contents(study)
            command(["study", "status", str(study)])
            command(["study", str(study / "study.toml"), "--out", str(study), "--dry-run", "--json"])
            status, _, said = command(["advise", str(cell.path)])
            if name == "iterations.csv" and status == 0 and not said:
                raise Fault("rows are missing or damaged, and nobody says so")
            _load(study)
            if contents(study) != before:
                raise Fault("a command that only reads has changed a file")
        restore(cell.path / name, pristine[name])


def restore(file: Path, content: bytes) -> None:
    """Make a file what it was."""
    if file.is_dir() and not file.is_symlink():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)
    file.write_bytes(content)


def _load(study: Path) -> None:
    """Read everything that a report needs; drawing it would take seconds, and reads no more."""
    try:
        load_comparison([study])
    except ValueError as error:
        if not str(error):
            raise Fault("an error without a word") from error


def declared(campaign: Campaign, study: Path, count: int) -> None:
    """Mutated study.toml: read within seconds or refused in one line; a dry run writes nothing."""
    rng = campaign.rng("declared")
    pristine = (study / "study.toml").read_bytes()
    file = campaign.folder / "mutated.toml"
    for _ in range(count):
        damaged = mutations.of_toml(pristine, rng)
        with campaign.case(f"a study of {damaged[:2000]!r}"):
            file.write_bytes(damaged)
            out = campaign.folder / "dry"
            command(["study", str(file), "--out", str(out), "--dry-run", "--json"])
            if out.exists():
                raise Fault("a dry run has made its folder")
            (study / "study.toml").write_bytes(damaged)
            command(["study", "status", str(study)])
    (study / "study.toml").write_bytes(pristine)


def packed(campaign: Campaign, study: Path, count: int) -> None:
    """Mutated records.zip: read or refused, and packing again keeps what the runs' folders hold."""
    rng = campaign.rng("packed")
    copy = campaign.folder / "packed"
    copy.mkdir()
    shutil.copy(study / "study.toml", copy)
    pristine = pack(study).read_bytes()
    (study / "records.zip").unlink()
    for _ in range(count):
        damaged = mutations.of_archive(pristine, rng)
        with campaign.case(f"records of {len(damaged)} bytes"):
            (copy / "records.zip").write_bytes(damaged)
            before = contents(copy)
            command(["study", "status", str(copy), "--json"])
            _load(copy)
            if contents(copy) != before:
                raise Fault("a command that only reads has changed a file")
            command(["study", "pack", str(copy), "--json"])
            require_nothing_left(copy)


def resumed(campaign: Campaign, count: int) -> None:
    """A run whose files were damaged goes on and ends as the whole one, or is refused and left alone."""
    rng = campaign.rng("resumed")
    config, folder = small("gymnasium/CartPole-v1", scheduler="hindsight", monitor_every=2), campaign.folder / "resumed"
    run(config, folder / "whole")
    cut = folder / "cut"
    run_one(config, cut, checkpoint_seconds=0.0, until=32 * 7)
    for _ in range(count):
        path = folder / "run"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(cut, path)
        file, damage = _damage(path, rng)
        with campaign.case(f"resuming a run whose {file.name} {damage}"):
            before = contents(path, "status|^lock|tfevents|machine.json")
            try:
                run(config, path)
            except ValueError as error:
                if contents(path, "status|^lock|tfevents|machine.json") != before and file.name != "config.json":
                    raise Fault(f"refused ({error}), but its files were changed") from error
                continue
            require_equal(path, folder / "whole")


def _damage(path: Path, rng: random.Random) -> tuple[Path, str]:
    older, newest = sorted((path / "checkpoint").glob("*.npz"))
    name = rng.choice(("checkpoint", "checkpoint", "iterations.csv", "iterations.csv", "status", "config.json",
                       "machine.json"))  # fmt: skip
    if name == "checkpoint":
        file = rng.choice((newest, newest, newest, older))
        content = mutations.of_checkpoint(file.read_bytes(), rng)
    else:
        file = path / name
        content = file.read_bytes()
        if name == "iterations.csv" and rng.random() < 0.4:
            content = mutations.of_bytes(content, rng)
        else:
            content = RUN_FILES[name](content, rng)
    replaced(file, content, rng)
    return file, f"is {content[:300]!r}"


def reports(campaign: Campaign, study: Path, count: int) -> None:
    """A report over one that was changed, or beside files and links of others: it touches nothing but its own."""
    rng = campaign.rng("reports")
    theirs, out = campaign.folder / "report" / "theirs", campaign.folder / "report" / "inner"
    build_report(ReportOptions((study,), out=theirs, resamples=100))
    names = ("../../victim.txt", "../victim.txt", str(campaign.victim), "figures/../../../victim.txt", "..", "/")
    for number in range(count):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(theirs, out)
        facts = out / "report.json"
        match number % 6:
            case 0:
                facts.write_text(f'{{"files": ["{rng.choice(names)}", "{rng.choice(names)}", "report.json"]}}')
            case 1:
                facts.write_bytes(mutations.of_json(facts.read_bytes(), rng))
            case 2:
                facts.unlink()  # so that none of the files is known to be a report's
            case 3:
                shutil.rmtree(out)
                out.symlink_to(theirs)
            case 4:
                shutil.rmtree(out / "figures")
                (out / "figures").symlink_to(theirs / "figures")
            case _:
                (out / "README.md").unlink()
                (out / "README.md").symlink_to(campaign.victim)
        with campaign.case(f"a report over one that was changed, {number % 6}"):
            before = contents(theirs)
            command(["report", str(study), "--out", str(out), "--resamples", "100"], allowed=(0, 2))
            if contents(theirs) != before:
                raise Fault("files were changed where a link leads")
            require_nothing_left(out)
        if out.is_symlink():
            out.unlink()


def events(campaign: Campaign, count: int) -> None:
    """TensorBoard files that are cut or changed: what can be read is read, the rest is refused in one line."""
    from torch.utils.tensorboard import SummaryWriter

    rng = campaign.rng("events")
    folder = campaign.folder / "logs"
    with SummaryWriter(str(folder / "method" / "task" / "1")) as writer:
        for step in range(30):
            writer.add_scalar("charts/episodic_return", step, step)
    file = next(folder.rglob("events*"))
    pristine = file.read_bytes()
    for _ in range(count):
        damaged = mutations.of_bytes(pristine, rng)
        with campaign.case(f"an event file of {len(damaged)} bytes"):
            replaced(file, damaged, rng)
            _load(folder)
        restore(file, pristine)


def played(campaign: Campaign, count: int) -> None:
    """`eval` of runs with mutated configurations and checkpoints: an answer or one line."""
    rng = campaign.rng("played")
    pristine = campaign.folder / "trained"
    run(small("gymnasium/CartPole-v1", iterations=2), pristine)
    for _ in range(count):
        path = campaign.folder / "played"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(pristine, path)
        file = path / "config.json" if rng.random() < 0.5 else rng.choice(list((path / "checkpoint").glob("*.npz")))
        mutate = mutations.of_json if file.suffix == ".json" else mutations.of_checkpoint
        damaged = mutate(file.read_bytes(), rng)
        with campaign.case(f"eval of a run whose {file.name} is {damaged[:300]!r}"):
            file.write_bytes(damaged)
            command(["eval", str(path), "--episodes", "1", "--device", "cpu", "--json"])
            require_nothing_left(path)
