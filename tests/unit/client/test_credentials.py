from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from jobmesh.client.credentials import Credentials
from jobmesh.errors import Unauthenticated


def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = Credentials(file, "teams.a")
    assert credentials.metadata() == (
        ("authorization", "Bearer one"),
        ("jobmesh-namespace", "teams.a"),
    )
    file.write_text("other")
    assert ("authorization", "Bearer other") in credentials.metadata()
    assert Credentials().metadata() == ()


def test_a_token_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match=r"absent.*No such file"):
        Credentials(tmp_path / "absent").metadata()


@pytest.mark.parametrize(
    "text",
    [
        "swordfish\nline",
        "swordfish\r\nline",
        "swordfish\ttab",
        "swordfish\0",
        "swordfish\x7f",
        "swórdfish",
        "\ufeffswordfish",
    ],
)
def test_a_token_that_cannot_be_sent_is_an_error_that_names_the_file_only(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text, "utf-8", newline="")
    credentials = Credentials(file)
    with pytest.raises(Unauthenticated) as caught:
        credentials.metadata()
    told = "".join(traceback.format_exception(caught.value))
    assert f"{file}" in told
    assert "one line of printable ASCII" in told
    assert "fish" not in told
    file.write_text("fine")
    assert credentials.metadata() == (("authorization", "Bearer fine"),)
