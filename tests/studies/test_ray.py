"""The Ray engine on a real cluster of several node processes, one of which is killed in the middle of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from adept.config import Execution
from adept.studies.driver import run_study
from adept.studies.engines import Event
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import Study, parse_study
from adept.studies.results import Cell, StudyResults
from adept.studies.work import Settings, last_iteration

from .conftest import ONE_TASK, SETTINGS, TASK, numbers

pytest.importorskip("ray")
import ray
from ray.cluster_utils import Cluster

from adept.studies.engines.ray import RayEngine

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def tiny_study(steps: int, seeds: int) -> Study:
    text = ONE_TASK.replace("steps = 512", f"steps = {steps}").replace("seeds = 2", f"seeds = {seeds}")
    return parse_study(text, "t")


class Monitored:
    """An engine whose events are monitored, to act in the middle of the work."""

    description = "a monitored engine"
    here = False

    def __init__(self, engine: RayEngine, act: Any) -> None:
        self._engine, self._act = engine, act

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        for event in self._engine.run(cells, settings):
            self._act(cells)
            yield event


@pytest.fixture(scope="module")
def cluster(the_only_ray: None) -> Iterator[Any]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def lose(cluster: Any, node: Any) -> None:
    """Everything of a node ends at once, as when its machine is lost: a worker left alone would run on for a while."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    workers = raylet.children(recursive=True)
    for process in (raylet, *workers):
        process.suspend()
    for worker in workers:
        worker.kill()
    cluster.remove_node(node, allow_graceful=False)


def run_locally(study: Study, folder: Path) -> StudyResults:
    return run_study(study, folder, LocalEngine(1), SETTINGS)


def test_a_lost_node_costs_no_number(cluster, tmp_path):
    cluster, nodes = cluster
    study = tiny_study(19200, seeds=1)
    killed = []

    def kill_a_node(cells: Sequence[Cell]) -> None:
        if not killed and all(last_iteration(cell.path) >= 6 for cell in cells):  # row 6 follows checkpoint 5
            killed.append([last_iteration(cell.path) for cell in cells])
            lose(cluster, nodes.pop())

    started = time.monotonic()
    engine = Monitored(RayEngine(cluster.address, retries=2), kill_a_node)
    results = run_study(study, tmp_path / "ray", engine, SETTINGS)
    print(f"killed at {killed}, {time.monotonic() - started:.0f} s")
    assert killed
    assert results.counts()["done"] == 2
    starts = sorted(len(results.starts(cell)) for cell in results.cells)
    assert starts == [1, 2]  # one run lost its node, and began again elsewhere
    resumed = next(cell for cell in results.cells if len(results.starts(cell)) == 2)
    assert results.starts(resumed)[1]["iteration"] >= 5  # from its checkpoint
    assert results.starts(resumed)[1]["command"] == "adept study tiny"
    local = run_locally(study, tmp_path / "local")
    for cell in results.cells:
        assert numbers(results, *cell.key) == numbers(local, *cell.key)


def test_a_failing_task_is_retried_by_ray_then_marked(cluster, tmp_path):
    cluster, _ = cluster
    study = tiny_study(640, seeds=1)
    folder = tmp_path / "study"
    blocked = folder / "runs" / "gymnasium-CartPole-v1" / "fixed-2" / "seed-1" / "checkpoint"
    blocked.mkdir(parents=True)
    (blocked / "00000005.npz").write_bytes(b"damaged")
    results = run_study(study, folder, RayEngine(cluster.address, retries=1, cpus=0.5), SETTINGS)
    assert results.counts() == {"done": 1, "running": 0, "interrupted": 0, "failed": 1, "missing": 0}
    assert "can be used" in results.cell("fixed-2", TASK, 1).error


def test_stopping_saves_what_is_under_way(cluster, tmp_path):
    cluster, _ = cluster
    study = tiny_study(64000, seeds=1)

    def interrupt(cells: Sequence[Cell]) -> None:
        if last_iteration(cells[0].path) >= 5:
            raise KeyboardInterrupt

    engine = Monitored(RayEngine(cluster.address), interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "study", engine, Settings(execution=Execution(device="cpu")))
    path = tmp_path / "study" / "runs" / "gymnasium-CartPole-v1" / "fixed-2" / "seed-1"
    # Checkpoints come every 30 s otherwise: this one is from the stop.
    assert len(list((path / "checkpoint").glob("*.npz"))) == 1


def test_an_address_where_nobody_is():
    ray.shutdown()
    with pytest.raises(ValueError, match="no Ray cluster can be reached"):
        next(iter(RayEngine("127.0.0.1:1").run([], Settings())))


def listening(others: Sequence[psutil.Process]) -> set[str]:
    """Return the addresses at which this process and its descendants listen, but for some that were there before."""
    found = set()
    for each in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            if each in others:
                continue
            found |= {entry.laddr.ip for entry in each.net_connections("tcp") if entry.status == psutil.CONN_LISTEN}
    return found


def test_a_local_cluster_listens_on_this_machine_alone(tmp_path):
    ray.shutdown()
    found: set[str] = set()
    others = psutil.Process().children(recursive=True)  # the cluster of the tests above

    def look(cells: Sequence[Cell]) -> None:
        found.update(listening(others))

    results = run_study(tiny_study(640, 1), tmp_path / "study", Monitored(RayEngine(workers=1), look), SETTINGS)
    assert results.counts()["done"] == 2
    assert found
    assert found <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.mark.parametrize("error", [RuntimeError("no\nshared memory"), Exception("raylet died"), SystemExit(1)])
def test_a_cluster_that_does_not_start_is_one_line(monkeypatch, error):
    ray.shutdown()

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(ValueError, match="no Ray cluster can be reached at 'local': ") as caught:
        next(iter(RayEngine().run([], Settings())))
    assert "\n" not in str(caught.value)


def test_a_version_that_listens_elsewhere_is_refused(monkeypatch):
    ray.shutdown()
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.7")
    with pytest.raises(ValueError, match=r"listens at 192\.0\.2\.7"):
        next(iter(RayEngine().run([], Settings())))
