"""Encryption, keys, signatures and keyless replicas of a vault. Imported only where a vault is sealed: it brings cryptography and age."""
