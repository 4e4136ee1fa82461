"""The accounting of a throw-away Slurm cluster: MariaDB and slurmdbd in the cluster's folder, so that sacct and sacctmgr answer."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.testing.slurm_cluster import SlurmCluster


def start_accounting(cluster: SlurmCluster) -> None:
    """Start both daemons and register the cluster and an account ``research``, which slurmctld wants to find at its first start."""
    _start_database(cluster)
    cluster.spawn("slurmdbd", "-D")
    cluster.wait(lambda: _answers(cluster), "slurmdbd does not answer")
    known = cluster.client("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster").split()
    if cluster.plan.name not in known:
        cluster.client("sacctmgr", "-i", "add", "cluster", cluster.plan.name)
        cluster.client("sacctmgr", "-i", "add", "account", "research", f"cluster={cluster.plan.name}")
        cluster.client("sacctmgr", "-i", "add", "user", "root", "account=research")


def _start_database(cluster: SlurmCluster) -> None:
    data, socket = cluster.folder / "mariadb", cluster.folder / "run" / "mariadb.sock"
    if not data.exists():
        arguments = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--user=root", "--skip-test-db"]
        done = subprocess.run(["mariadb-install-db", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db: {done.stdout}{done.stderr}")
    first = cluster.folder / "first.sql"
    user = f"'slurm'@'{cluster.plan.address}'"
    first.write_text(
        "CREATE DATABASE IF NOT EXISTS slurm_acct;\n"
        f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY 'slurm';\n"
        f"GRANT ALL ON slurm_acct.* TO {user};\n"
    )
    small = [
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=8M",
        "--performance-schema=OFF",
        "--skip-log-bin",
        "--skip-name-resolve",
    ]
    listen = [f"--bind-address={cluster.plan.address}", f"--port={cluster.plan.accounting_ports[1]}", f"--socket={socket}"]
    files = [f"--datadir={data}", f"--pid-file={cluster.folder / 'run' / 'mariadb.pid'}", f"--init-file={first}"]
    socket.unlink(missing_ok=True)
    cluster.spawn("mariadbd", "--no-defaults", "--user=root", *files, *listen, *small)
    cluster.wait(socket.exists, "mariadbd does not listen")


def _answers(cluster: SlurmCluster) -> bool:
    try:
        cluster.client("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster")
    except RuntimeError:
        return False
    return True
