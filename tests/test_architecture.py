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

PACKAGE = Path(__file__).parent.parent / "src" / "adept"

# room → the rooms that it may import, inside functions too; its own is understood. A line for one part of a
# package, such as algorithms/stopping, takes it out of the package's room.
MAY_IMPORT: dict[str, set[str]] = {
    "names": set(),
    "extras": set(),
    "options": {"names"},
    "terminal": set(),
    "seeding": set(),
    "records": {"terminal"},
    "schedulers": {"names"},
    "hindsight": {"names", "extras"},
    "rules": {"names", "schedulers", "hindsight"},
    "engine": {"hindsight", "rules", "schedulers", "seeding"},
    "loop": {"hindsight", "rules", "schedulers", "engine"},
    # The two tables that a configuration's names are checked against; they need no PyTorch.
    "algorithms/__init__": set(),
    "algorithms/stopping": {"names"},
    "config": {"names", "schedulers", "hindsight", "rules", "algorithms/__init__", "algorithms/stopping"},
    "presets": {"names", "config", "rules", "algorithms/__init__"},
    "cost": {"config", "engine", "hindsight", "rules", "algorithms/__init__"},
    "envs": {"names", "extras", "config"},
    "networks": {"names", "envs"},
    "normalization": {"envs"},
    "rollout": {"config", "envs", "networks", "normalization", "seeding"},
    "algorithms": {"names", "config", "rules", "envs", "networks", "rollout", "seeding"},
    "fast": {"config", "rules", "envs", "networks", "rollout", "algorithms", "algorithms/__init__", "seeding"},
    "flops": {"names", "config", "envs", "networks"},
    "trainer_engine": {
        *{"engine", "hindsight", "rules", "schedulers", "config", "cost", "envs", "rollout", "seeding"},
        *{"algorithms", "algorithms/__init__"},
    },
    "training": {
        *{
            "names",
            "config",
            "rules",
            "cost",
            "seeding",
            "envs",
            "networks",
            "rollout",
            "fast",
            "flops",
            "trainer_engine",
        },
        *{"algorithms", "algorithms/__init__", "algorithms/stopping"},
    },
    # A run's folder: what writes it (runner) trains, what reads it (records) does not.
    "runs": {
        *{"names", "extras", "records", "config", "seeding", "envs", "networks", "normalization", "rollout", "cost"},
        *{"algorithms", "hindsight", "training", "terminal"},
    },
    "studies": {
        *{
            "names",
            "extras",
            "records",
            "config",
            "presets",
            "algorithms/__init__",
            "envs",
            "flops",
            "cost",
            "runs",
            "terminal",
        },
        *{"hindsight", "rules"},  # for what a run will cost
    },
    # A report reads the records of a study against the grid that the study declares; it runs nothing.
    "report": {"names", "extras", "records", "config", "presets", "cost", "hindsight", "runs", "studies", "terminal"},
    # Probes read records, and branch runs of their own.
    "probe": {
        *{"names", "schedulers", "rules", "hindsight", "config", "seeding", "trainer_engine", "training", "runs"},
        *{"studies", "report"},
    },
    "integrations": {"extras", "rules", "hindsight", "engine"},
}
# The front door: `cli` finds the command, and a command may open every room. No room may import a command.
MAY_IMPORT["cli"] = {"names", "extras", "options", "terminal"}
MAY_IMPORT["commands"] = set(MAY_IMPORT)
# What `import adept` gives; what needs more than NumPy is opened on first use.
MAY_IMPORT["__init__"] = {"extras", "schedulers", "rules", "loop", "training"}

CORE = ("__init__", "names", "extras", "seeding", "schedulers", "hindsight", "rules", "engine", "loop")
"""What works with NumPy alone: at module level these import nothing else."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE).with_suffix("")
    named = (each.as_posix() for each in (inside, *inside.parents))
    return next((name for name in named if name in MAY_IMPORT), inside.parts[0])


def room_named(name: str) -> str:
    """Return the room of a full name below `adept`, such as algorithms.learner.Loss."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:end])
        if path.with_suffix(".py").is_file():
            return room_of(path.with_suffix(".py"))
        if path.is_dir():
            return room_of(path / "__init__.py")
    # `from adept import UCB` reaches everything behind the front page, so it hides the direction.
    return "__init__"


def imported_modules(path: Path, *, module_level: bool = False) -> Iterator[str]:
    """Yield the full name of everything that a file imports when it runs: names for a type checker are none of that."""
    inside = path.relative_to(PACKAGE.parent).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in running(tree, functions=not module_level):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` in a/b.py starts at a; one more dot, one level up.
            start = ".".join(inside[: -node.level]) if node.level else ""
            source = ".".join(part for part in (start, node.module) if part)
            yield from (f"{source}.{alias.name}" for alias in node.names)


def running(tree: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Yield the nodes below one, but for what only a type checker reads, and for functions unless they are wanted."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        inside_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not functions
        if not for_types and not inside_function:
            yield node
            yield from running(node, functions=functions)


def imported_rooms(path: Path) -> set[str]:
    names = (name.partition(".")[2] for name in imported_modules(path) if name.partition(".")[0] == "adept")
    return {room_named(name) for name in names if name != "__version__"} - {room_of(path)}


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
    assert reaches["hindsight"] <= {"names", "extras"}
    assert reaches["rules"] <= {"names", "extras", "schedulers", "hindsight"}
    assert reaches["engine"] <= {"names", "extras", "schedulers", "hindsight", "rules", "seeding"}
    assert reaches["integrations"] <= {"names", "extras", "schedulers", "hindsight", "rules", "seeding", "engine"}
    assert not reaches["networks"] & {"rollout", "algorithms", "training"}
    assert not reaches["rollout"] & {"algorithms", "engine", "training"}
    assert not reaches["config"] & {"envs", "networks", "algorithms", "training"}
    assert not {room for room in MAY_IMPORT if "fast" in MAY_IMPORT[room]} - {"training", "commands"}
    assert not reaches["algorithms"] & {"training", "studies", "runs"}
    assert not reaches["training"] & {"runs", "studies", "report", "cli"}
    assert not reaches["studies"] & {"report", "commands", "cli"}
    assert not MAY_IMPORT["report"] & {"training", "algorithms", "envs", "networks"}


def test_records_are_read_without_training():
    read = [path for path in MODULES if room_of(path) == "report" or path.name in ("records.py", "machine.py")]
    names = {name for path in read for name in imported_modules(path)}
    assert not [name for name in names if name.startswith(("adept.runs.runner", "adept.training", "torch"))]


def test_the_page_names_every_room():
    page = (PACKAGE.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES} - {"__init__"}
    missing = sorted(room for room in rooms if f"`{room}/`" not in page and f"`{room}.py`" not in page)
    assert not missing, f"docs/architecture.md does not say what {', '.join(missing)} is for"


def test_what_is_printed_passes_the_terminal():
    """`terminal` makes text inert; integrations print advice, which holds no text of others."""
    free = ("terminal", "integrations", "envs/bullet")
    printing = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if not path.relative_to(PACKAGE).as_posix().startswith(free)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "Console")
    ]
    assert not printing, "use adept.terminal.say, warn or make_console"


def test_files_are_opened_by_safe_io():
    """What anyone may have written is opened by `open_foreign` and written aside; this machine's own files are not."""
    opening = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if path.name not in ("safe_io.py", "machine.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "open")
            or (isinstance(node.func, ast.Attribute) and node.func.attr in ("read_bytes", "write_text", "write_bytes"))
        )
    ]
    assert not opening, "use adept.runs.safe_io"
