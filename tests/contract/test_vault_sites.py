from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId
from bridgehead.ports.vaults import Vaults
from bridgehead.testing.vault_damage import flip_in_block
from bridgehead.testing.vaults_suite import VaultsSuite, stamp
from bridgehead.vault import SiteVaults, Vault


class TestSiteVaults(VaultsSuite):
    codec = False

    @pytest.fixture
    def vaults(self, tmp_path: Path) -> Vaults:
        self.folder = tmp_path
        return SiteVaults({site: Vault.init(self.store(site), codec=self.codec) for site in (self.source, self.target)})

    def store(self, site: SiteId) -> LocalBlobs:
        return LocalBlobs(LocalBlobsOptions(str(self.folder / site)))

    def write(self, vaults: Vaults, site: SiteId, *, step: int, epoch: int) -> SnapshotId:
        values = np.random.default_rng(step).standard_normal((12, 20_000), dtype=np.float32)
        files = {"model.safetensors": to_safetensors({f"layer.{index}": row for index, row in enumerate(values)})}
        return Vault.open(self.store(site)).save(files, workload=self.workload, step=step, epoch=Epoch(epoch), site=site).id

    def damage(self, vaults: Vaults, snapshot: SnapshotId, site: SiteId) -> bool:
        ref = Vault.open(self.store(site)).snapshot(snapshot).files[0].blocks[-1]
        flip_in_block(self.folder / site, ref.stored or ref.block)
        return True


class TestEncodingSiteVaults(TestSiteVaults):
    codec = True


def test_J01_site_out_of_reach_stops_only_the_calls_that_need_it(tmp_path: Path) -> None:
    here, there = SiteId("here"), SiteId("there")
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "here"))))
    saved = vault.save({"m": b"x"}, workload=VaultsSuite.workload, step=1, epoch=Epoch(0), site=here)
    sites = SiteVaults({here: vault, there: lambda: Vault.open(LocalBlobs(LocalBlobsOptions(str(tmp_path / "there"))))})
    assert sites.newest(VaultsSuite.workload, site=here).id == saved.id
    with pytest.raises(Transient):
        sites.newest(VaultsSuite.workload, site=there)
    (tmp_path / "there").mkdir()
    with pytest.raises(NotFound, match="there is no vault"):
        sites.newest(VaultsSuite.workload, site=there)
    Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "there"))))
    assert sites.replicate(saved.id, source=here, target=there, budget_s=1.0, stamp=stamp()).done
    assert sites.newest(VaultsSuite.workload, site=there).id == saved.id
    assert sites.raw_bytes == 1
    assert sites.wire_bytes == sum(
        path.stat().st_size
        for folder in ("data", "index", "snapshots")
        for path in (tmp_path / "there" / folder).rglob("*")
        if path.is_file()
    )
