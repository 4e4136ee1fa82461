"""Whether the process that holds a lease lives: dead only on positive evidence (J15)."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from bridgehead.drivers.system import is_alive, this_driver

ME = this_driver()
BOOT, TICKS, NAMESPACE = ME.started.split(":")


def holder(host=ME.host, pid=ME.pid, boot=BOOT, ticks=TICKS, namespace=NAMESPACE):
    return msgspec.structs.replace(ME, host=host, pid=pid, started=f"{boot}:{ticks}:{namespace}")


@pytest.mark.parametrize("host", [ME.host, "the-name-of-before"])
def test_J15_on_this_boot_pid_and_start_time_decide_whatever_the_host_name(host):
    assert is_alive(holder(host))
    assert not is_alive(holder(host, ticks="1"))
    assert not is_alive(holder(host, pid=2**22 + 1))


def test_J15_a_driver_of_this_machine_from_before_a_reboot_is_dead():
    assert not is_alive(holder(boot="another"))


@pytest.mark.parametrize("unseen", [{"host": "elsewhere", "boot": "another"}, {"namespace": "1"}, {"host": "elsewhere", "namespace": "1"}])
def test_J15_a_driver_on_another_machine_or_in_another_container_is_not_called_dead(unseen):
    assert is_alive(holder(**unseen, pid=2**22 + 1))


def test_J15_a_driver_lives_until_it_ends_and_a_zombie_is_dead():
    script = "from bridgehead.drivers.system import this_driver; print(this_driver().pid, this_driver().started, flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid, started = process.stdout.readline().split()
    driver = msgspec.structs.replace(ME, pid=int(pid), started=started)
    try:
        assert is_alive(driver)
    finally:
        process.stdin.close()
        process.stdout.read()
        process.wait()
        process.stdout.close()
    assert not is_alive(driver)
