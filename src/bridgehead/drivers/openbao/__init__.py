"""OpenBao driver: secrets of KV version 2, short-lived tokens by AppRole, keys of transit."""

from bridgehead.drivers.openbao.options import OpenBaoOptions, options_of
from bridgehead.drivers.openbao.secrets import OpenBaoSecrets

__all__ = ["OpenBaoOptions", "OpenBaoSecrets", "options_of"]
