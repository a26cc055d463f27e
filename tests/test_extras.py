"""A missing extra names the pip command; a broken installation speaks for itself."""

from __future__ import annotations

import sys

import pytest

from adept.extras import MissingExtra, require


def test_an_installed_module_is_returned():
    assert require("json.decoder", "train") is sys.modules["json.decoder"]


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inside"])
def test_a_missing_one_names_the_command(module):
    with pytest.raises(MissingExtra) as caught:
        require(module, "train")
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "no_such_package"
    assert str(caught.value) == (
        "no_such_package is not installed; it comes with the extra 'train': pip install 'adept-rl[train]'"
    )


def test_a_missing_dependency_of_an_installed_module_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "installed_but_broken.py").write_text("import its_missing_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_dependency") as caught:
        require("installed_but_broken", "train")
    assert not isinstance(caught.value, MissingExtra)
