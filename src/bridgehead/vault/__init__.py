"""The vault: checkpoints with hashed blocks, a commit point, receipts and fences (design section 5; R4, R6, R8, R13).

``Vault`` is one vault, ``SiteVaults`` the vaults of all sites behind the port. All else in this package is inside.
"""

from bridgehead.vault.catalog import PassedOver, Survey
from bridgehead.vault.records import Damaged
from bridgehead.vault.save import SaveResult
from bridgehead.vault.sites import SiteVaults
from bridgehead.vault.vault import Vault
from bridgehead.vault.verify import Damage, ObjectKind, VerifyReport

__all__ = ["Damage", "Damaged", "ObjectKind", "PassedOver", "SaveResult", "SiteVaults", "Survey", "Vault", "VerifyReport"]
