"""Programs of another machine behind the shell port, through the OpenSSH client."""

from bridgehead.drivers.ssh.shell import SshOptions, SshShell

__all__ = ["SshOptions", "SshShell"]
