"""Check the built distributions: all files are there, and the README's bandit runs with NumPy alone."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Check the newest wheel and source distribution in dist/."""
    (wheel,), (source,) = ROOT.glob("dist/*.whl"), ROOT.glob("dist/*.tar.gz")
    check_files(wheel, source)
    with tempfile.TemporaryDirectory() as folder:
        check_install(wheel, Path(folder))
    print(f"{wheel.name} and {source.name} are complete; the README's bandit runs with NumPy alone.")
    return 0


def check_files(wheel: Path, source: Path) -> None:
    """Compare the files in both distributions with those in the repository."""
    listed = subprocess.run(["git", "ls-files", "src/adept"], cwd=ROOT, capture_output=True, text=True, check=True)
    package = {name for name in listed.stdout.split() if (ROOT / name).exists()}
    shipped = {name.removeprefix("src/") for name in package}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(source) as archive:
        in_source = {name.partition("/")[2] for name in archive.getnames()}
    for name, wanted, found in ((wheel.name, shipped, in_wheel), (source.name, package, in_source)):
        if missing := sorted(wanted - found):
            raise SystemExit(f"{name} lacks {', '.join(missing)}; add them to package-data in pyproject.toml")
    others = {name.partition("/")[0] for name in in_wheel if ".dist-info/" not in name} - {"adept"}
    if others:
        raise SystemExit(f"{wheel.name} also has {', '.join(sorted(others))}; only adept belongs into it")
    if tests := [name for name in in_source if name.startswith("tests/")]:
        raise SystemExit(f"{source.name} has {len(tests)} files of the tests; MANIFEST.in leaves all of them out")


def check_install(wheel: Path, folder: Path) -> None:
    """Install the wheel into an empty environment and run the README's bandit there."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    listed = subprocess.run([*pip, "freeze", "--all"], capture_output=True, text=True, check=True).stdout
    names = {re.split(r"==| @ ", line)[0] for line in listed.splitlines()}
    if names - {"pip", "setuptools"} != {"adept-rl", "numpy"}:
        raise SystemExit(f"an empty environment now has {', '.join(sorted(names))}; adept-rl needs NumPy alone")
    (bandit,) = re.findall(r"`(adept\.UCB[^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    program = f"import adept\nmean_return = 1.0\nepochs = {bandit}\nassert epochs == 3, epochs\n"
    subprocess.run([python, "-c", program], cwd=folder, check=True)
    adept = [str(folder / "venv" / "bin" / "adept")]
    subprocess.run([*adept, "--version"], check=True)
    told = subprocess.run([*adept, "report", "."], cwd=folder, capture_output=True, text=True, check=False)
    if told.returncode != 2 or "pip install 'adept-rl[train]'" not in told.stderr:
        raise SystemExit(f"without its extra, `adept report` must name the pip command; it said: {told.stderr}")


if __name__ == "__main__":
    sys.exit(main())
