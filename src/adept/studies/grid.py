"""A study as data: methods × tasks × seeds, the keys in which methods may differ, and what a folder may continue."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from adept.config import Config, current_keys
from adept.names import unknown_name
from adept.presets import preset
from adept.runs.parsing import fit, parse_toml
from adept.runs.records import config_of
from adept.runs.safe_io import read_text
from adept.studies.relative import resolve

CONFIG_KEYS = Config.keys()
FORMER_DIFFERENCES = {"arms": ("epochs", "arms"), "target_kl": ("stopping",)}
"""Former keys in `differs` of study files, and their present names."""
KEYS = ("name", "title", "tasks", "seeds", "steps", "until", "baseline", "criterion", "threshold", "differs", "base",
        "methods", "axis", "only")  # fmt: skip
CRITERIA = ("final-score", "mean-score", "steps-to-threshold")
"""What decides a study: the score at the end, its mean over the run, or the steps until a score is reached."""
SHAPE = {
    "name": str, "title?": str, "tasks": [str], "methods": [dict], "baseline": str, "differs?": [str], "base?": dict,
    "steps?": dict, "until?": int, "criterion?": str, "threshold?": float,
}  # fmt: skip
MOST_RUNS = 100_000
LONGEST_LABEL = 200
"""Letters of a title or label: they stand in figures, tables and terminals."""
NEVER_DIFFER = ("env", "seed", "steps")
"""Keys that are the grid's own, or without which runs cannot be compared."""


@dataclass(frozen=True)
class Method:
    """One method of a study: its name, how it is called in figures, and the keys it sets."""

    name: str
    label: str
    values: Mapping[str, Any]
    axis: tuple[str, str] | None = None
    """where the study has an axis: the labels of the method without the value, and of the value"""


@dataclass(frozen=True)
class Study:
    """A whole grid, declared before anything runs."""

    name: str
    title: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: tuple[Method, ...]
    baseline: str
    """name of the method that scores are normalised by"""
    differs: tuple[str, ...]
    """configuration keys by which methods may differ"""
    base: Mapping[str, Any]
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """environment steps by task, where tasks want different budgets; the others have those of [base] or the preset"""
    until: int | None = None
    """environment steps after which every run pauses, to be continued by a study without this key or a larger one"""
    criterion: str = "final-score"
    """the primary criterion: the report and the results page decide by this one measure"""
    threshold: float | None = None
    """the score that steps-to-threshold waits for; without it, 90 % of the baseline's final mean on each task"""
    text: str = dataclasses.field(default="", compare=False, repr=False)
    """the TOML that it was read from"""
    _configs: dict[tuple[str, str], Config] = dataclasses.field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if (runs := len(self.tasks) * len(self.seeds) * len(self.methods)) > MOST_RUNS:
            raise ValueError(f"study {self.name!r} has {runs:,} runs; at most {MOST_RUNS:,} can be handled")
        folders = [folder_name(task) for task in self.tasks]
        for kind, items in {"task": self.tasks, "seed": self.seeds, "method": names, "task's folder": folders}.items():
            if not items:
                raise ValueError(f"study {self.name!r} has no {kind}; name at least one")
            if twice := [item for item, count in Counter(items).items() if count > 1]:
                raise ValueError(f"study {self.name!r} names the {kind} {twice[0]!r} twice")
        for text in (self.title, *(method.label for method in self.methods)):
            if len(text) > LONGEST_LABEL:
                shown = f"the title or label {text[:40]!r}… has {len(text):,} letters"
                raise ValueError(f"{shown}; at most {LONGEST_LABEL} fit")
        for name in [self.name, *names]:
            if not name or folder_name(name) != name or name.startswith("."):
                raise ValueError(f"the name {name!r} cannot be a folder; use letters, digits, '-' and '_'")
        _require_known("baseline", [self.baseline], names)
        _require_known("criterion", [self.criterion], CRITERIA)
        _require_known("task in [steps]", self.steps, self.tasks)
        if self.threshold is not None and self.criterion != "steps-to-threshold":
            raise ValueError(
                f"threshold {self.threshold:g} has no use with the criterion {self.criterion!r}; "
                "leave it out, or declare criterion = 'steps-to-threshold'"
            )
        if never := [key for key in self.differs if key in NEVER_DIFFER]:
            raise ValueError(f"methods of a study cannot differ in {never[0]!r}: their runs could not be compared")
        _require_known("key in differs", self.differs, CONFIG_KEYS)
        self._require_equal_but_for_declared()
        if empty := next((task for task in self.tasks if self.iterations(task) < 1), None):
            rows = self._any_config(empty).batch_size
            raise ValueError(f"until {self.until} is less than one rollout of {rows} steps on {empty}")

    def _require_equal_but_for_declared(self) -> None:
        """Presets follow the method too: what they change must be declared as well."""
        for method in self.methods:
            if undeclared := [key for key in method.values if key not in self.differs]:
                raise ValueError(
                    f"method {method.name!r} sets {undeclared[0]!r}, but methods of {self.name!r} may differ only in: "
                    f"{', '.join(self.differs) or 'none'}; declare the key in differs, or set it for all in [base]"
                )
        for task, method in itertools.product(self.tasks, self.methods):
            reference = self._any_config(task).to_dict()
            config = self.config(method.name, task, self.seeds[0]).to_dict()
            for key in different_keys(reference, config):
                if key not in self.differs:
                    raise ValueError(
                        f"method {method.name!r} has {key} = {config.get(key)!r} on {task}, the baseline "
                        f"{reference.get(key)!r}; declare {key!r} in differs, or set it for all in [base]"
                    )

    def method(self, name: str) -> Method:
        """Return a method by its name."""
        _require_known("method", [name], [method.name for method in self.methods])
        return next(method for method in self.methods if method.name == name)

    def config(self, method: str, task: str, seed: int) -> Config:
        """Return the configuration of one cell: the task's preset, then [base], then the method's own keys."""
        if (known := self._configs.get((method, task))) is not None:
            return known if seed == known.seed else dataclasses.replace(known, seed=seed)
        values = current_keys({**self.base, **self.method(method).values})
        algo, scheduler = values.get("algo", "ppo"), values.get("scheduler", Config.scheduler)
        try:
            standard = preset(task, algo, scheduler)
            values = resolve(values, preset(task, algo, "fixed").epochs, standard.learning_rate)
            if task in self.steps:
                values["steps"] = self.steps[task]
            config = config_of({**standard.to_dict(), **values, "env": task, "seed": seed}, "its settings")
        except (ValueError, TypeError) as error:
            raise ValueError(f"study {self.name!r}, method {method!r} on {task}: {error}") from error
        self._configs[method, task] = config
        return config

    @property
    def budget(self) -> dict[str, int]:
        """Environment steps of every run, by task: whole iterations, up to `until` where that is set."""
        return {task: self.iterations(task) * self._any_config(task).batch_size for task in self.tasks}

    def iterations(self, task: str) -> int:
        """Return the iterations that a run of this study makes on a task."""
        config = self._any_config(task)
        return config.iterations if self.until is None else min(config.iterations, self.until // config.batch_size)

    def _any_config(self, task: str) -> Config:
        return self.config(self.baseline, task, self.seeds[0])


def cell_path(directory: Path, method: str, task: str, seed: int) -> Path:
    """Return the run's folder of one cell."""
    return directory / "runs" / folder_name(task) / method / f"seed-{seed}"


def folder_name(name: str) -> str:
    """Return a name as it appears in paths."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def parse_study(text: str, source: str) -> Study:
    """Read a study from TOML; every mistake is a `ValueError` of one line that names the source."""
    table = parse_toml(text, source)
    try:
        return _build(table, text)
    except (ValueError, TypeError) as error:  # the latter of values that are lists or tables where names belong
        raise ValueError(f"{source}: {error}") from error


def _build(table: dict[str, Any], text: str) -> Study:
    _require_known("key of a study", table, KEYS)
    for key in ("name", "tasks", "seeds", "baseline", "methods"):
        if key not in table:
            raise ValueError(f"the key {key!r} is missing; a study needs name, tasks, seeds, baseline and [[methods]]")
    fit(table, SHAPE, "the study")
    seeds = table["seeds"]
    if type(seeds) is int:
        if not 1 <= seeds <= MOST_RUNS:
            raise ValueError(f"seeds must be between 1 and {MOST_RUNS:,}, or a list of them, got {seeds}")
        seeds = list(range(1, seeds + 1))
    fit(seeds, [int], "seeds, which is a list of whole numbers or how many (1, 2, …)")
    base, until, threshold = table.get("base", {}), table.get("until"), table.get("threshold")
    if until is not None and until < 1:
        raise ValueError(f"until must be a whole number of environment steps ≥ 1, got {until!r}")
    steps = table.get("steps", {})
    if not all(type(value) is int and value >= 1 for value in steps.values()):
        raise ValueError(f"[steps] must give whole numbers of environment steps by task, got {steps!r}")
    _require_known("key in [base]", base, [key for key in CONFIG_KEYS if key not in ("env", "seed")])
    name, baseline, axis = table["name"], table["baseline"], table.get("axis")
    methods = tuple(_method(values) for values in table["methods"])
    if axis is not None:
        methods = _crossed(methods, axis)
    if (only := table.get("only")) is not None:  # the methods at one value of the axis, under names of their own
        _require_known("value of the axis in only", [str(only)], axis or {})
        name, ending = f"{name}-{only}", f".{only}"
        own = (method for method in methods if method.name.endswith(ending))
        methods = tuple(dataclasses.replace(each, name=each.name.removesuffix(ending), axis=None) for each in own)
        baseline = baseline.rpartition(".")[0] or baseline
    return Study(
        name=name,
        title=table.get("title", table["name"]),
        tasks=tuple(table["tasks"]),
        seeds=tuple(seeds),
        methods=methods,
        baseline=baseline,
        differs=tuple(
            dict.fromkeys(now for key in table.get("differs", []) for now in FORMER_DIFFERENCES.get(key, (key,)))
        ),
        base=base,
        steps=steps,
        until=until,
        criterion=table.get("criterion", "final-score"),
        threshold=None if threshold is None else float(threshold),
        text=text,
    )


def _crossed(methods: Iterable[Method], axis: Any) -> tuple[Method, ...]:
    """Return every method at every value of an axis, named METHOD.VALUE.

    A value is a table of configuration keys, and may have a label: `drac = { algo = "drac", label = "DrAC" }`.
    """
    if not isinstance(axis, dict) or not axis or not all(isinstance(values, dict) for values in axis.values()):
        raise ValueError(f"[axis] must give tables of configuration keys by name, got {axis!r}")
    values = [_method({"name": name, **own}) for name, own in axis.items()]
    found = []
    for method, value in itertools.product(methods, values):
        if both := sorted(method.values.keys() & value.values.keys()):
            raise ValueError(f"method {method.name!r} and axis value {value.name!r} both set {both[0]!r}; one may")
        joined, axis = {**method.values, **value.values}, (method.label, value.label)
        found.append(Method(f"{method.name}.{value.name}", ", ".join(axis), joined, axis))
    return tuple(found)


def _method(values: dict[str, Any]) -> Method:
    if not isinstance(values.get("name"), str):
        raise ValueError(f"every method needs a name, got {values!r}")
    name, own = values["name"], {key: value for key, value in values.items() if key not in ("name", "label")}
    _require_known(f"key of method {name!r}", own, CONFIG_KEYS)
    fit(values, {"label?": str}, f"method {name!r}")
    return Method(name, values.get("label", name), current_keys(own))


def shipped_studies() -> tuple[str, ...]:
    """Return the names of the studies that come with the package."""
    folder = resources.files("adept.studies") / "data"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def load_study(name_or_file: str) -> Study:
    """Return a study from a TOML file, or a shipped one by name; NAME-VALUE is one value of the axis of NAME alone."""
    path = Path(name_or_file)
    if path.suffix == ".toml" or path.is_file():
        return parse_study(read_text(path), str(path))
    folder, names = resources.files("adept.studies") / "data", shipped_studies()
    texts = {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in names}
    for name in names:
        for value in parse_toml(texts[name], name).get("axis", ()):
            texts[f"{name}-{value}"] = f'only = "{value}"\n{texts[name]}'
    _require_known("study", [name_or_file], texts)
    return parse_study(texts[name_or_file], f"study {name_or_file}")


def require_continuation(old: Study, new: Study, where: str) -> None:
    """Refuse a study that contradicts the one a folder was started with; more of everything is allowed.

    Titles, labels and the study's name may change: they decide no number.
    """
    changes = []
    for kind, before, after in (
        ("tasks", old.tasks, new.tasks),
        ("seeds", old.seeds, new.seeds),
        ("methods", [method.name for method in old.methods], [method.name for method in new.methods]),
    ):
        if lost := [str(item) for item in before if item not in after]:
            changes.append(f"{kind} without {', '.join(lost)}")
    if old.baseline != new.baseline:
        changes.append(f"baseline {old.baseline} → {new.baseline}")
    if new.until is not None and (old.until is None or new.until < old.until):
        changes.append(f"until {old.until or 'the end'} → {new.until}")
    kept = [method.name for method in old.methods if method.name in {each.name for each in new.methods}]
    for method, task in itertools.product(kept, [task for task in old.tasks if task in new.tasks]):
        was, now = (study.config(method, task, old.seeds[0]).to_dict() for study in (old, new))
        changes += [f"{method}: {key} {was.get(key)!r} → {now.get(key)!r}" for key in different_keys(was, now)]
    if changes := list(dict.fromkeys(changes)):
        raise ValueError(
            f"{where} holds a study that this one does not continue ({'; '.join(changes)}); choose another --out"
        )


def different_keys(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ, in order."""
    return [key for key in {**first, **second} if first.get(key) != second.get(key)]


def _require_known(kind: str, names: Iterable[str], allowed: Collection[str]) -> None:
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)
