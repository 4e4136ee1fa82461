"""The lab says what its jobs lack before it starts them."""

from __future__ import annotations

import pytest

from bridgehead.app.lab.work import _check_imports
from bridgehead.kernel.errors import BridgeheadError, ErrorCode


def test_what_the_jobs_import_is_looked_for_first() -> None:
    _check_imports("msgspec")
    with pytest.raises(BridgeheadError, match="no aiohttp_that_is_not_there") as told:
        _check_imports("msgspec", "aiohttp_that_is_not_there")
    assert told.value.code is ErrorCode.SERVER_MISSING
