from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from jobmesh.dev.directory import DataDirectory
from jobmesh.dev.errors import DevError
from jobmesh.dev.readyfile import ReadyFile


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "deep" / "data")
    directory.prepare()
    return directory


def test_others_cannot_read_it(data: DataDirectory) -> None:
    assert stat.S_IMODE(data.root.stat().st_mode) == 0o711
    assert stat.S_IMODE(data.logs.stat().st_mode) == 0o700
    assert (data.root / ".gitignore").read_text() == "*\n"


def test_a_second_one_is_told_who_holds_it(data: DataDirectory) -> None:
    assert data.running() is None
    with data.locked():
        assert data.running() == os.getpid()
        told = pytest.raises(DevError, match=rf"process {os.getpid()}.*jobmesh dev stop")
        with told, data.locked():
            pass
    assert data.running() is None
    with data.locked():
        assert data.running() == os.getpid()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DevError, match="file"):
        DataDirectory(tmp_path / "file").prepare()


def test_a_ready_file_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(DevError, match="no such directory"):
        ReadyFile([tmp_path / "none" / "ready.json"])


def test_the_ready_file_is_whole_private_and_removed(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    file = ReadyFile(paths)
    for number in (1, 2):
        file.put({"processes": {"runner-1": number}})
        for path in paths:
            assert json.loads(path.read_text()) == {"processes": {"runner-1": number}}
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == paths
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_cannot_be_put_is_told_and_the_others_are(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    (paths[0] / "in the way").mkdir(parents=True)
    file = ReadyFile(paths)
    with pytest.raises(DevError, match=r"a\.json cannot be written: Is a directory"):
        file.put({"processes": {}})
    assert json.loads(paths[1].read_text()) == {"processes": {}}
    with pytest.raises(DevError, match=r"a\.json cannot be removed: "):
        file.remove()
    assert sorted(tmp_path.iterdir()) == paths[:1]
