"""A draft from captures: stores, results of tests, what was received between sites, grace chains, services (M4, M5.2, P5, P23, M10.2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.declared import complete
from bridgehead.app.discover import discover
from bridgehead.app.evidence import read_out
from bridgehead.discovery.draft import Draft, draft
from bridgehead.kernel.ids import SiteId
from bridgehead.model.acceptance import Scale
from bridgehead.model.equipment import StoreKind
from bridgehead.testing.capture_gpus import smi_xml

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
MOUNTS = "nas-1:/export/ckpt /mnt/ckpt nfs4 rw,vers=4.2,addr=10.1.0.9 0 0\n/dev/sda1 / ext4 rw 0 0\n"
DF = "Filesystem Type 1-blocks Used Available Capacity Mounted on\nnas-1:/export/ckpt nfs4 1000000000 250000000 750000000 25% /mnt/ckpt\n"


def place(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def host(folder: Path, number: int, **files: str) -> None:
    """A host with two GPUs, and what else it says."""
    place(folder, smi=smi_xml(number, 2), **files)


def drawn(**sites: Path) -> Draft:
    given = {name: [path] for name, path in sites.items()}
    told = read_out(discover(given, jobs=1))
    return draft({SiteId(name): told.knowledge.get(name, {}) for name in given}, name="x")


def lacks(of: Draft) -> str:
    return "\n".join(f"{lack.what}: {lack.settled_by}" for lack in of.lacks)


def nccl(hosts: list[str], *, wrong: str = "0", gbps: str = "380.5") -> str:
    ranks = "".join(
        f"#  Rank {2 * at + gpu:2} Group  0 Pid 1 on {name} device  {gpu} [0x1a] NVIDIA H100 80GB HBM3\n"
        for at, name in enumerate(hosts)
        for gpu in (0, 1)
    )
    row = f"  8589934592  2147483648  float  sum  -1  41000  209.5  {gbps}  {wrong}  41100  209.0  380.0  {wrong}\n"
    end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.1\n"
    return f"# Collective test starting: all_reduce_perf\n# Using devices\n{ranks}{row}{end}"


def iperf(to: str, *, here: str, there: str, sent: float, received: float, protocol: str = "TCP", reverse: int = 0) -> str:
    start = {
        "version": "iperf 3.16",
        "timestamp": {"timesecs": 1796000000},
        "connecting_to": {"host": to, "port": 5201},
        "connected": [{"local_host": here, "remote_host": there}],
        "test_start": {"protocol": protocol, "num_streams": 8, "reverse": reverse},
    }
    streams = [{"sender": {"min_rtt": 24000, "mean_rtt": 25000, "max_rtt": 26000}}]
    end = {
        "streams": streams,
        "sum_sent": {"bits_per_second": sent, "bytes": 1, "seconds": 10.0},
        "sum_received": {"bits_per_second": received},
    }
    return json.dumps({"start": start, "intervals": [], "end": end}, indent=1)


def test_P23_single_nfs_server_is_a_store_with_its_size(tmp_path: Path) -> None:
    for number in (1, 2):
        host(tmp_path / f"g{number}", number, mounts=MOUNTS, df=DF)
    [store] = drawn(a=tmp_path).estate.sites[0].stores
    assert (store.id, store.kind, store.protocol, store.servers) == ("mnt-ckpt", StoreKind.FILESYSTEM, "nfs", 1)
    assert (store.size_bytes, store.used_bytes) == (1_000_000_000, 250_000_000)


def test_store_without_a_size_waits_and_more_servers_may_be_declared(tmp_path: Path) -> None:
    host(tmp_path / "in" / "g1", 1, mounts=MOUNTS)
    found = drawn(a=tmp_path / "in")
    assert found.estate.sites[0].stores == ()
    assert "size, and so the store itself, of mnt-ckpt (nas-1:/export/ckpt): df -P -T -B 1" in lacks(found)
    said = tmp_path / "declared.yaml"
    said.write_text("sites: {a: {stores: {mnt-ckpt: {size: 2 PB, servers: 4}}}}\n", encoding="utf-8")
    done = complete(found.estate, said, waiting=found.waiting)
    [store] = done.estate.sites[0].stores
    assert (store.protocol, store.servers, store.size_bytes, done.disputes) == ("nfs", 4, 2 * 10**15, ())


@pytest.mark.parametrize(
    ("second", "what"),
    [
        ("nas-2:/export/ckpt /mnt/ckpt nfs4 rw 0 0\n", "whether the servers that hosts of a mount there are one store"),
        ("10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch /mnt/ckpt lustre rw 0 0\n", "whether the servers that hosts of a mount there are one store"),
    ],
)
def test_two_sources_at_one_place_are_listed_and_not_taken(tmp_path: Path, second: str, what: str) -> None:
    host(tmp_path / "g1", 1, mounts=MOUNTS, df=DF)
    host(tmp_path / "g2", 2, mounts=second)
    found = drawn(a=tmp_path)
    assert found.estate.sites[0].stores == ()
    assert what in lacks(found)


def test_parallel_file_system_has_no_count_of_servers_and_homes_are_one_store(tmp_path: Path) -> None:
    homes = "".join(f"nas:/home/u{number} /home/u{number} nfs rw 0 0\n" for number in range(20))
    sizes = "".join(f"nas:/home/u{number} 500 5 495 1% /home/u{number}\n" for number in range(20))
    text = "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch /scratch lustre rw 0 0\nshare /mnt/share virtiofs rw 0 0\n" + homes
    table = "Filesystem 1M-blocks Used Available Use% Mounted on\n10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch 4000 40 3960 1% /scratch\n" + sizes
    host(tmp_path / "g1", 1, mounts=text, df=table)
    stores = drawn(a=tmp_path).estate.sites[0].stores
    assert [(one.id, one.protocol, one.servers, one.size_bytes >> 20) for one in stores] == [
        ("home", "nfs", 1, 500),
        ("scratch", "lustre", None, 4000),
    ]


def test_P5_results_are_taken_at_their_scale(tmp_path: Path) -> None:
    host(tmp_path / "g1", 1, nccl=nccl(["g1"]))
    host(tmp_path / "g2", 2)
    host(tmp_path / "g3", 3)
    place(tmp_path / "tests", all=nccl(["g1", "g2", "g3.example.com"], gbps="360.25"), some=nccl(["g1", "g2"], gbps="370.0"))
    found = drawn(a=tmp_path)
    results = {one.id: one for one in found.estate.sites[0].acceptance}
    assert {name: (one.test, one.scale, one.nodes, one.measured_bps, one.wrong) for name, one in results.items()} == {
        "nccl-all-reduce-2-g1": ("nccl-all-reduce", Scale.NODE, 1, 380.5e9 * 8, 0),
        "nccl-all-reduce-6-full": ("nccl-all-reduce", Scale.FULL, 3, 360.25e9 * 8, 0),
    }
    assert results["nccl-all-reduce-2-g1"].evidence.endswith("g1/nccl")
    assert "scale of a run on 2 nodes, which are neither one rack nor all of a" in lacks(found)


def test_results_that_were_not_checked_do_not_count_as_right(tmp_path: Path) -> None:
    host(tmp_path / "g1", 1, nccl=nccl(["g1"], wrong="N/A"))
    [result] = drawn(a=tmp_path).estate.sites[0].acceptance
    assert (result.measured_bps, result.wrong) == (380.5e9 * 8, None)


def test_perftest_takes_the_best_size_and_no_delay(tmp_path: Path) -> None:
    sample = next((FIXTURES / "perftest").iterdir()).read_text(encoding="utf-8")
    host(tmp_path / "g1", 1, bw=sample)
    results = drawn(a=tmp_path).estate.sites[0].acceptance
    assert results
    assert all(one.test.startswith("ib-") and one.scale is Scale.NODE and one.measured_bps for one in results)


def test_iperf3_within_a_site_is_a_result_and_between_sites_what_was_received(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    host(old / "g1", 1, near=iperf("g2", here="10.1.0.1", there="10.1.0.2", sent=99e9, received=95e9))
    host(old / "g2", 2, far=iperf("10.2.0.7", here="10.1.0.2", there="10.2.0.7", sent=9.9e9, received=9.1e9))
    addresses = [
        {
            "ifindex": 2,
            "ifname": "eth0",
            "mtu": 9000,
            "operstate": "UP",
            "link_type": "ether",
            "addr_info": [{"local": "10.2.0.7", "scope": "global"}],
        }
    ]
    host(new / "h7", 7, addr=json.dumps(addresses), back=iperf("g2", here="10.2.0.7", there="10.1.0.2", sent=8.9e9, received=8.2e9))
    udp = iperf("g1", here="10.2.0.7", there="10.1.0.1", sent=40e9, received=39e9, protocol="UDP")
    place(new / "h7", udp=udp)
    found = drawn(old=old, new=new)
    inside = {one.id: one.measured_bps for site in found.estate.sites for one in site.acceptance}
    assert inside == {"iperf3-g1-g2": 95e9}
    assert found.estate.links == (), "the rate of the line was not told"
    assert "the one link between new and old over which 8.2 Gbit/s were received" in lacks(found)

    said = tmp_path / "links.yaml"
    said.write_text("links: {dark-fibre: {between: [old, new], rate: 10 Gbps, carrier: c1}}\n", encoding="utf-8")
    done = complete(found.estate, said, waiting=found.waiting)
    [link] = done.estate.links
    assert (link.measured_bps, link.flows, link.delay_s, link.rate_bps, done.lacks) == (8.2e9, 8, 0.012, 10e9, ())

    said.write_text("links:\n  one: {between: [old, new], rate: 10 Gbps}\n  two: {between: [new, old], rate: 10 Gbps}\n", encoding="utf-8")
    several = complete(found.estate, said, waiting=found.waiting)
    assert [link.measured_bps for link in several.estate.links] == [None, None], "nobody says over which of them it went"
    assert len(several.lacks) == 1


def test_M5_2_grace_chain_of_slurm(tmp_path: Path) -> None:
    config = (FIXTURES / "slurm-text/scontrol_show_config.txt").read_text(encoding="utf-8")
    job = "JobId=7 JobName=lm\n   UserId=a(1) JobState=RUNNING Partition=main\n   NumNodes=1 TRES=cpu=8,mem=16G,node=1,gres/gpu=8\n"
    part = "PartitionName=main\n   AllowGroups=ALL AllowAccounts=ALL\n   GraceTime=20 Hidden=NO\n   PreemptMode=REQUEUE State=UP\n"
    place(tmp_path / "in", config=config, job=job, part=part)
    [workload] = drawn(a=tmp_path / "in").estate.workloads
    assert [(one.id, one.lasts_s) for one in workload.graces] == [("slurm-preemption", 20.0), ("slurm-killwait", 45.0)]
    place(tmp_path / "in", other=config.replace("= tern", "= gull").replace("45 sec", "30 sec"))
    found = drawn(a=tmp_path / "in")
    assert [one.id for one in found.estate.workloads[0].graces] == ["slurm-preemption"]
    assert "one KillWait of its Slurm clusters" in lacks(found)


def test_services_of_kubernetes_with_what_needs_what(tmp_path: Path) -> None:
    text = (FIXTURES / "kubernetes/services_deployments.json").read_text(encoding="utf-8")
    place(tmp_path / "in", k=text)
    found = drawn(a=tmp_path / "in")
    services = {one.id: one for one in found.estate.services}
    assert {name: (one.workload, one.sites) for name, one in services.items()} == {
        "chat.prod.svc": ("prod.chat", ("a",)),
        "vectors.prod.svc": ("prod.vectors", ("a",)),
    }
    assert services["chat.prod.svc"].endpoints == ("203.0.113.40:8000", "203.0.113.40:9100", "https://chat.example.com")
    chat = next(one for one in found.estate.workloads if one.id == "prod.chat")
    assert chat.needs == ("vectors.prod.svc",)
    assert [(one.id, one.lasts_s) for one in chat.graces] == [("pod-termination", 90.0), ("after-pre-stop", 70.0)]
    assert "stands behind db.prod.svc:5432, which it calls, of prod.chat" in lacks(found)


def test_service_before_two_workloads_is_listed_and_two_sites_are_told_apart(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads((FIXTURES / "kubernetes/services_deployments.json").read_text(encoding="utf-8"))
    place(tmp_path / "a", k=json.dumps(document))
    canary = json.loads(json.dumps(next(one for one in document["items"] if one["kind"] == "Deployment")))
    canary["metadata"]["name"] = "chat-canary"
    document["items"].append(canary)
    place(tmp_path / "b", k=json.dumps(document))
    found = drawn(a=tmp_path / "a", b=tmp_path / "b")
    assert {one.id: one.workload for one in found.estate.services} == {
        "chat.prod.svc": "a.prod.chat",
        "a.vectors.prod.svc": "a.prod.vectors",
        "b.vectors.prod.svc": "b.prod.vectors",
    }
    assert "one workload behind it (2 are), and so the service itself, of chat.prod.svc" in lacks(found)
    needs = {one.id: one.needs for one in found.estate.workloads}
    assert needs["b.prod.chat"] == needs["prod.chat-canary"] == ("b.vectors.prod.svc",)


def test_one_host_under_two_names_is_no_two_hosts(tmp_path: Path) -> None:
    for name in ("g1", "g1b"):
        host(tmp_path / name, 1)
    host(tmp_path / "g2", 2)
    found = drawn(a=tmp_path)
    assert [node.id for node in found.estate.sites[0].nodes] == ["g2"]
    assert "g1b has the same GPU, as one host under two names has" in lacks(found)
