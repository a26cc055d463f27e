"""The directions of dependency between the rooms of the package, as one table.

A room is a module or a package directly under `adept`. A new room is one new line in `MAY_IMPORT`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "adept"

# room → the rooms that it may import, inside functions too; its own is understood.
MAY_IMPORT: dict[str, set[str]] = {
    "names": set(),
    "extras": set(),
    "seeding": set(),
    "schedulers": {"names"},
    "controllers": {"names", "schedulers"},
    "hindsight": {"names", "extras", "schedulers", "controllers"},
    "config": {"names", "schedulers"},
    "presets": {"names", "config", "controllers"},
    "envs": {"names", "extras", "config", "seeding"},
    "distributions": {"envs"},
    "networks": {"names", "distributions", "envs"},
    "normalization": {"envs"},
    "actors": {"envs", "networks"},
    "rollout": {"actors", "config", "envs", "networks", "normalization", "seeding"},
    "algorithms": {"names", "config", "distributions", "envs", "networks", "rollout", "seeding", "schedulers"},
    "fast": {"config", "seeding", "distributions", "envs", "networks", "actors", "rollout", "algorithms"},
    "flops": {"names", "config", "envs", "networks"},
    "training": {
        *{"names", "extras", "schedulers", "config", "seeding", "envs", "networks", "normalization", "actors"},
        *{"rollout", "algorithms", "fast", "flops"},
    },
    # A run's folder: what writes it (runner) trains, what reads it (records) does not.
    "runs": {
        *{"names", "extras", "config", "seeding", "envs", "networks", "normalization", "actors", "algorithms"},
        *{"flops", "training"},
    },
    "studies": {
        *{"names", "extras", "config", "presets", "envs", "flops", "training", "runs"},
    },
    # A report reads the records of a study against the grid that the study declares; it runs nothing.
    "report": {"names", "extras", "config", "runs", "studies"},
    # Probes read records, and branch runs of their own.
    "probe": {
        *{"names", "schedulers", "controllers", "hindsight", "config", "seeding", "training", "runs", "studies"},
        *{"report"},
    },
    "integrations": {"names", "extras", "schedulers", "controllers", "hindsight"},
}
# The front door: `cli` finds the command, and a command may open every room. No room may import a command.
MAY_IMPORT["cli"] = {"names", "extras"}
MAY_IMPORT["commands"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = {"cli"}
# What `import adept` gives; what needs more than NumPy is opened on first use.
MAY_IMPORT["__init__"] = {"extras", "schedulers", "controllers", "hindsight", "training"}

CORE = ("__init__", "names", "extras", "schedulers", "controllers", "hindsight")
"""What works with NumPy alone: at module level these import nothing else."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_room(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def imported_modules(path: Path, *, module_level: bool = False) -> Iterator[str]:
    """Yield the full name of everything that a file imports."""
    inside = path.relative_to(PACKAGE.parent).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in at_module_level(tree) if module_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` in a/b.py starts at a; one more dot, one level up.
            start = ".".join(inside[: -node.level]) if node.level else ""
            source = ".".join(part for part in (start, node.module) if part)
            yield from (f"{source}.{alias.name}" for alias in node.names)


def at_module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when the module is imported: not the functions, nor what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not for_types:
            yield node
            yield from at_module_level(node)


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for name in imported_modules(path):
        top, _, rest = name.partition(".")
        if top == "adept" and rest != "__version__":
            first = rest.partition(".")[0]
            # `from adept import UCB` reaches everything behind the front page, so it hides the direction.
            rooms.add(first if is_room(first) else "__init__")
    return rooms - {room_of(path)}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent))


def test_every_module_is_in_a_known_room():
    unknown = sorted({room_of(path) for path in MODULES} - MAY_IMPORT.keys())
    assert not unknown, f"no line for {', '.join(unknown)}: say what it may import in MAY_IMPORT, in {__file__}"


def test_the_table_points_one_way():
    list(TopologicalSorter(MAY_IMPORT).static_order())  # a CycleError names the rooms that import each other
    assert not {room for allowed in MAY_IMPORT.values() for room in allowed} - MAY_IMPORT.keys()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_table(path):
    forbidden = imported_rooms(path) - MAY_IMPORT.get(room_of(path), set())
    assert not forbidden, (
        f"{name_of(path)} imports {', '.join(sorted(forbidden))}, which {room_of(path)} may not: "
        "move the code to a room that may, or, if the direction is right, extend MAY_IMPORT"
    )


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) in CORE], ids=name_of)
def test_the_core_needs_numpy_alone(path):
    names = list(imported_modules(path, module_level=True))
    assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy", "adept"}
    assert {name.split(".")[1] for name in names if name.startswith("adept.")} <= set(CORE)


def test_the_directions_of_the_design():
    """What the table must never lose, however it grows."""
    reaches = {room: set(allowed) for room, allowed in MAY_IMPORT.items()}
    for room in TopologicalSorter(MAY_IMPORT).static_order():
        reaches[room] |= {far for near in MAY_IMPORT[room] for far in reaches[near]}
    assert reaches["schedulers"] <= {"names", "extras"}
    assert reaches["hindsight"] <= {"names", "extras", "schedulers", "controllers"}
    assert reaches["integrations"] <= {"names", "extras", "schedulers", "controllers", "hindsight"}
    assert not reaches["networks"] & {"rollout", "algorithms", "training"}
    assert not reaches["rollout"] & {"algorithms", "training"}
    assert not reaches["algorithms"] & {"training", "studies", "runs"}
    assert not reaches["training"] & {"runs", "studies", "report", "cli"}
    assert not reaches["studies"] & {"report", "commands", "cli"}
    assert not MAY_IMPORT["report"] & {"training", "algorithms", "envs", "networks"}


def test_records_are_read_without_training():
    read = [path for path in MODULES if room_of(path) == "report" or path.name in ("records.py", "machine.py")]
    names = {name for path in read for name in imported_modules(path)}
    assert not [name for name in names if name.startswith(("adept.runs.runner", "adept.training", "torch"))]
