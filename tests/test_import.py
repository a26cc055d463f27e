"""`import adept` gives the schedulers with NumPy alone."""

from __future__ import annotations

import subprocess
import sys

NUMPY_ALONE = """
import sys

class NumpyAlone:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "adept"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NumpyAlone())
"""


def run(program: str) -> str:
    """Run a program in an interpreter of its own and return what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_but_numpy_and_the_standard_library():
    loaded = run(
        "import sys, numpy\nbefore = {name.partition('.')[0] for name in sys.modules}\nimport adept\n"
        "after = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(after - before - set(sys.stdlib_module_names)))\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert loaded == "['adept']"


def test_schedulers_work_where_nothing_but_numpy_is_installed():
    choices = run(
        NUMPY_ALONE + "import adept\n"
        "schedulers = [adept.make_scheduler(name, [2]) for name in adept.SCHEDULERS]\n"
        "for scheduler in schedulers:\n"
        "    scheduler.load_state_dict(scheduler.state_dict())\n"
        "print({scheduler.step(1.0) for scheduler in schedulers})\n"
        "try: adept.make_scheduler('ubc', [1])\n"
        "except ValueError as error: assert 'ucb' in str(error)\n"
    )
    assert choices == "{2}"


def test_the_rest_answers_with_the_pip_command_there():
    message = run(
        NUMPY_ALONE + "from adept.extras import MissingExtra, require\n"
        "try: require('torch', 'train')\n"
        "except MissingExtra as error: print(error)\n"
    )
    assert message == "torch is not installed; it comes with the extra 'train': pip install 'adept-rl[train]'"


def test_every_exported_name_is_there():
    assert run("import adept\nfor name in adept.__all__: getattr(adept, name)\nprint('all')") == "all"
