"""What a throw-away Slurm cluster is made of: its plan, and the files that Slurm reads."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from pathlib import Path

import msgspec


class SlurmPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster: slurmctld, slurmd once a node, and its own munged with its own key.

    Attributes:
        name: of the cluster; nodes are ``<name>-n1``, ``<name>-n2``, ...
        gpus: fake GPUs a node; 0 for none.
        partitions: each holds all nodes; the first one is the default.
        address: where everything listens, and by which clients reach it.
        namespace: network namespace in which every program runs, which the caller has made; "" for the present one.
        controller_port: 0 takes a free one of this namespace; so with the others.
        accounting: with slurmdbd and MariaDB, so that sacct and sacctmgr answer; without, ended jobs are in ``log/jobcomp.txt`` only.
        rest: with slurmrestd at ``cluster.rest_socket``.
        settings: lines of slurm.conf that replace or extend ours, as ``KillWait: "10"``.
    """

    name: str = "site-a"
    nodes: int = 2
    gpus: int = 4
    gpu_type: str = "h100"
    cpus: int = 8
    memory_mb: int = 8_000
    partitions: tuple[str, ...] = ("train", "serve")
    address: str = "127.0.0.1"
    namespace: str = ""
    controller_port: int = 0
    node_ports: tuple[int, ...] = ()
    accounting: bool = False
    accounting_ports: tuple[int, ...] = ()
    rest: bool = False
    settings: dict[str, str] = {}

    @property
    def node_names(self) -> tuple[str, ...]:
        """In the order of their numbers."""
        return tuple(f"{self.name}-n{number}" for number in range(1, self.nodes + 1))


SCHEDULING = "sched_interval=1,sched_min_interval=50000,batch_sched_delay=0,bf_interval=1,bf_min_age_reserve=0"
"""The loops that start jobs run each second, or at once after a submission: waiting for the default of a minute tests nothing."""


_EPILOG = """\
#!/bin/sh
# What cgroups do at a real site: nothing of a job stays when its first process is gone.
for file in $(grep -lzxs "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ); do
    grep -qzxs "SLURM_CONF={conf}" "$file" || continue
    grep -qzxs "SLURMD_NODENAME=$SLURMD_NODENAME" "$file" || continue
    grep -qzs "^SLURM_SCRIPT_CONTEXT=" "$file" && continue
    pid=${{file#/proc/}}
    kill -9 "${{pid%/environ}}" 2>/dev/null
done
exit 0
"""


def write_files(plan: SlurmPlan, folder: Path) -> None:
    """Write slurm.conf, gres.conf, device files and the key into ``folder``; the key survives a repeat. Needs root, as Slurm does here."""
    for name in ("run", "log", "spool", "state", "dev"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    # munged insists on a folder that everybody can enter and nobody else can write; pytest's own are 0700, which it accepts above.
    (folder / "run").chmod(0o755)
    key = folder / "munge.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
    (folder / "slurm.conf").write_text(_slurm_conf(plan, folder))
    (folder / "gres.conf").write_text(_gres_conf(plan, folder))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    epilog = folder / "epilog.sh"
    epilog.write_text(_EPILOG.format(conf=folder / "slurm.conf"))
    epilog.chmod(0o755)
    for number in range(plan.gpus):
        device = folder / "dev" / f"gpu{number}"
        if not device.exists():
            # A character device like a real GPU's; slurmd complains about plain files.
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    if plan.accounting:
        database = folder / "slurmdbd.conf"
        database.touch(mode=0o600)  # slurmdbd refuses a file that others can read
        database.write_text(_slurmdbd_conf(plan, folder))


def munge_socket(folder: Path) -> Path:
    """Where the cluster's own munged listens. Raises ValueError when the path is longer than the kernel allows a socket's to be."""
    path = folder / "run" / "munge.sock"
    if len(os.fsencode(path)) > 100:
        raise ValueError(f"{path} is too long for a socket: choose a folder with a shorter path")
    return path


def _slurm_conf(plan: SlurmPlan, folder: Path) -> str:
    host = socket.gethostname().partition(".")[0]
    socket_path = munge_socket(folder)
    settings = {
        "ClusterName": plan.name,
        "SlurmctldHost": f"{host}({plan.address})",
        "SlurmctldPort": str(plan.controller_port),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        # A requeued job waits until its credential has expired: 120 s by default.
        "AuthInfo": f"socket={socket_path},cred_expire=5",
        "SlurmdParameters": "config_overrides",
        # Follows children that left the process group, which proctrack/pgid loses; cgroups of two clusters here would be the same ones.
        "ProctrackType": "proctrack/linuxproc",
        "Epilog": str(folder / "epilog.sh"),
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux" if plan.accounting else "jobacct_gather/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "ReturnToService": "2",
        "StateSaveLocation": str(folder / "state"),
        "SlurmdSpoolDir": str(folder / "spool" / "%n"),
        "SlurmctldPidFile": str(folder / "run" / "slurmctld.pid"),
        "SlurmdPidFile": str(folder / "run" / "slurmd-%n.pid"),
        "SlurmctldLogFile": str(folder / "log" / "slurmctld.log"),
        "SlurmdLogFile": str(folder / "log" / "slurmd-%n.log"),
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": SCHEDULING,
        "KillWait": "5",
        "SlurmdTimeout": "10",
        "SlurmctldTimeout": "10",
        "MessageTimeout": "5",
        "JobRequeue": "1",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": str(folder / "log" / "jobcomp.txt"),
    }
    if plan.address.startswith("127."):
        # Listen on loopback only. Slurm then binds to what the host's name means, so elsewhere this would bind to the wrong address.
        settings["CommunicationParameters"] = "NoCtldInAddrAny,NoInAddrAny"
    if plan.gpus:
        settings["GresTypes"] = "gpu"
    if plan.accounting:
        settings["AccountingStorageType"] = "accounting_storage/slurmdbd"
        settings["AccountingStorageHost"] = plan.address
        settings["AccountingStoragePort"] = str(plan.accounting_ports[0])
        # With a munge socket of one's own: without this line slurmctld dies, and each sacctmgr blocks.
        settings["AccountingStoragePass"] = str(socket_path)
        # Only with a slurmdbd: slurmctld refuses to start otherwise.
        settings["AccountingStorageTRES"] = "gres/gpu"
    settings |= plan.settings
    return "\n".join([*(f"{key}={value}" for key, value in settings.items()), *_nodes_and_partitions(plan, host)]) + "\n"


def _nodes_and_partitions(plan: SlurmPlan, host: str) -> list[str]:
    lines = []
    gres = f" Gres=gpu:{plan.gpu_type}:{plan.gpus}" if plan.gpus else ""
    for node, port in zip(plan.node_names, plan.node_ports, strict=True):
        address = f"NodeHostname={host} NodeAddr={plan.address} Port={port}"
        lines.append(f"NodeName={node} {address} CPUs={plan.cpus} RealMemory={plan.memory_mb}{gres} State=UNKNOWN")
    for number, partition in enumerate(plan.partitions):
        lines.append(f"PartitionName={partition} Nodes=ALL Default={'NO' if number else 'YES'} MaxTime=INFINITE State=UP")
    return lines


def _gres_conf(plan: SlurmPlan, folder: Path) -> str:
    if not plan.gpus:
        return "AutoDetect=off\n"
    devices = folder / "dev" / (f"gpu[0-{plan.gpus - 1}]" if plan.gpus > 1 else "gpu0")
    return f"AutoDetect=off\nNodeName={','.join(plan.node_names)} Name=gpu Type={plan.gpu_type} File={devices}\n"


def _slurmdbd_conf(plan: SlurmPlan, folder: Path) -> str:
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={munge_socket(folder)}",
        "DbdHost": socket.gethostname().partition(".")[0],
        "DbdAddr": plan.address,
        "DbdPort": str(plan.accounting_ports[0]),
        "SlurmUser": "root",
        "LogFile": str(folder / "log" / "slurmdbd.log"),
        "PidFile": str(folder / "run" / "slurmdbd.pid"),
        "StorageType": "accounting_storage/mysql",
        "StorageHost": plan.address,
        "StoragePort": str(plan.accounting_ports[1]),
        "StorageUser": "slurm",
        "StoragePass": "slurm",
        "StorageLoc": "slurm_acct",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
