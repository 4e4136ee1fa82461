"""What is in a home is for its owner alone: the journal holds the environments of jobs."""

from __future__ import annotations

import os
import stat

import pytest

from bridgehead.app.home import Home


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_home_and_journal_are_their_owners_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        journal = Home(tmp_path / "home").journal()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()} == {
        name: 0o600 for name in ("journal.db", "journal.db-wal", "journal.db-shm")
    }
    journal.close()


def test_a_folder_that_was_there_keeps_its_rights_and_the_journal_in_it_is_private(tmp_path):
    tmp_path.chmod(0o755)
    Home(tmp_path).journal().close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "journal.db").stat().st_mode) == 0o600
