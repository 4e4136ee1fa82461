from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId
from bridgehead.ports.vaults import Vaults
from bridgehead.testing.vaults_suite import VaultsSuite
from bridgehead.vault import SiteVaults, Vault


class TestSiteVaults(VaultsSuite):
    @pytest.fixture
    def vaults(self, tmp_path: Path) -> Vaults:
        self.folder = tmp_path
        return SiteVaults({site: Vault.init(self.store(site)) for site in (self.source, self.target)})

    def store(self, site: SiteId) -> LocalBlobs:
        return LocalBlobs(LocalBlobsOptions(str(self.folder / site)))

    def write(self, vaults: Vaults, site: SiteId, *, step: int, epoch: int) -> SnapshotId:
        values = np.random.default_rng(step).standard_normal((12, 20_000), dtype=np.float32)
        files = {"model.safetensors": to_safetensors({f"layer.{index}": row for index, row in enumerate(values)})}
        return Vault.open(self.store(site)).save(files, workload=self.workload, step=step, epoch=Epoch(epoch), site=site).id

    def damage(self, vaults: Vaults, snapshot: SnapshotId, site: SiteId) -> bool:
        block = Vault.open(self.store(site)).snapshot(snapshot).files[0].blocks[-1].block
        path = self.folder / site / "data" / block[:2] / block
        path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        return True
