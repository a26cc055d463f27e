"""The notebook runs from top to bottom, and what is stored of it is what it shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("gymnasium")

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "first_look.ipynb"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    # Whatever other tests made of the environment: the kernel shows figures as notebooks do.
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    stored, book = (nbformat.read(NOTEBOOK, as_version=4) for _ in range(2))
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    assert [_kinds(cell) for cell in book.cells] == [_kinds(cell) for cell in stored.cells]
    table = book.cells[-2].outputs[0].text.splitlines()
    assert [line.split()[0] for line in table[1:]] == ["preset", "hindsight", "ucb"]
    # 15 iterations of 4096 steps, 10 epochs each; where compute is expensive, hindsight makes at most as many.
    epochs = [int(line.split()[-1]) for line in table[1:]]
    assert epochs[0] == 150
    assert all(15 <= number <= 150 for number in epochs)
    assert not list(tmp_path.iterdir())  # it leaves nothing where it runs


def _kinds(cell: nbformat.NotebookNode) -> list[str]:
    """Return what a cell puts out: text, results, figures."""
    return [output.output_type for output in cell.get("outputs", [])]
