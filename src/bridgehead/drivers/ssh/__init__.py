"""Programs of another machine behind the shell port, through the OpenSSH client."""

from bridgehead.drivers.ssh.shell import SshShell

__all__ = ["SshShell"]
