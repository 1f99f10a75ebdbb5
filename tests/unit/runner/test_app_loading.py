from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobmesh_runner.app_loading import BadApp, load_tasks

MODULES = {
    "good": "from jobmesh import App\napp = App()\n@app.task('good.one')\ndef one() -> int: ...\n",
    "nested": "from jobmesh import App\nclass Box: app = App()\nBox.app.task('n')(lambda: 1)\n",
    "rival": "from jobmesh import App\napp = App()\n@app.task('good.one')\ndef two(): ...\n",
    "empty": "from jobmesh import App\napp = App()\n",
    "broken": "1 / 0\n",
    "wrong": "app = 3\n",
    "signature": "from jobmesh import App\napp = App()\n@app.task('s')\ndef f(a: 'Missing'): ...\n",
    "many": "from jobmesh import App\napp = App()\n"
    "for n in range(1001): app.task(f't{n}')(lambda: 1)\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in MODULES.items():
        (tmp_path / f"loading_{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in MODULES:
        sys.modules.pop(f"loading_{name}", None)


def test_modules_are_sought_in_the_working_directory() -> None:
    assert list(load_tasks(["loading_good:app"])) == ["good.one"]


def test_several_apps_are_put_together() -> None:
    assert list(load_tasks(["loading_good:app", "loading_nested:Box.app"])) == ["good.one", "n"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["loading_nowhere:app"], "cannot import loading_nowhere: ModuleNotFoundError"),
        (["loading_broken:app"], "ZeroDivisionError: division by zero"),
        (["loading_good:nothing"], "loading_good has no nothing"),
        (["loading_wrong:app"], "is a int, not a jobmesh.App"),
        (["loading_empty:app"], "there are no tasks"),
        (["loading_many:app"], "1001 tasks are more than the 1,000"),
        (["loading_signature:app"], "task s: f: an annotation cannot be resolved"),
        (["loading_good:app", "loading_rival:app"], "good.one is registered already"),
    ],
)
def test_an_app_that_cannot_be_served_says_why(names: list[str], why: str) -> None:
    with pytest.raises(BadApp) as refused:
        load_tasks(names)
    assert why in str(refused.value)
