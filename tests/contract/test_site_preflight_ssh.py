"""A site preflight goes over ssh where the site's scheduler does: what is looked for is looked for there (issue 6)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app.site_preflight.judging import SitePreflight
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.finding import FindingStatus
from bridgehead.model.site_map import Kind, SiteLook
from bridgehead.model.site_needs import Need, SiteNeeds
from bridgehead.testing.ssh_server import SshServer

pytestmark = pytest.mark.server("sshd", "ssh")
B = SiteId("site-b")


def test_paths_and_variables_are_those_of_the_other_machine(tmp_path_factory, tmp_path):
    words = [(Kind.PATH, str(tmp_path), "read"), (Kind.PATH, f"{tmp_path}/gone", "read"), (Kind.VARIABLE, "SSH_CONNECTION", "asked")]
    needs = SiteNeeds(WorkloadId("w"), SiteId("site-a"), B, SiteLook(B), needs=tuple(Need(*one, "job.sh:1") for one in words))
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    with server.running():
        ssh = msgspec.structs.replace(server.options(), keep_s=0.0)
        connection = {"driver": "slurm", "cluster": B, "state": "/nowhere", "ssh": msgspec.to_builtins(ssh)}
        preflight = SitePreflight({"sites": {B: {"scheduler": connection}}, "services": {}})
        there = [one.status for one in preflight.judge(needs) if one.code in ("SITE-PATH", "SITE-VARIABLE")]
    assert there == [FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.PASS]
    away = [one.status for one in preflight.judge(needs) if one.code in ("SITE-PATH", "SITE-VARIABLE")]
    assert away == [FindingStatus.UNKNOWN] * 3
