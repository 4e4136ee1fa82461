"""FaultBook: lets planned faults happen, and keeps book of which were hit. A fault that was not hit has proved nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from bridgehead.kernel.ids import SiteId
from bridgehead.model.snapshot import Fence
from bridgehead.simulate import faults as ft
from bridgehead.simulate.world import World

RETRY_DEATH_S = 0.5


class DriverDied(BaseException):
    """The driving process is dead: nothing of it may run on, no ``except Exception`` may outlive it."""

    def __init__(self, resume_after_s: float, *, zombie_s: float | None = None) -> None:
        super().__init__("planned death")
        self.resume_after_s = resume_after_s
        self.zombie_s = zombie_s


class FaultBook:
    """The faults of one run.

    Args:
        say: an operator's word reaches the run; False when the run had ended before.
        run_lasts: the run has not ended.
    """

    def __init__(
        self, world: World, planned: Sequence[ft.Fault], *, say: Callable[[ft.Saying], bool], run_lasts: Callable[[], bool]
    ) -> None:
        self.planned = tuple(planned)
        self._world = world
        self._say = say
        self._run_lasts = run_lasts
        self._hit: set[int] = set()
        self._calls: dict[str, int] = {}
        self._appends = 0
        self._open_windows: dict[int, Callable[[], bool]] = {}
        for index, fault in enumerate(self.planned):
            if not isinstance(fault, ft.CallFault | ft.AppendFault):
                self._arm(index, fault)

    @property
    def hit(self) -> list[ft.Fault]:
        """Faults that happened."""
        self._look_at_windows()
        return [fault for index, fault in enumerate(self.planned) if index in self._hit]

    @property
    def missed(self) -> list[ft.Fault]:
        """Faults that did not come to pass."""
        self._look_at_windows()
        return [fault for index, fault in enumerate(self.planned) if index not in self._hit]

    def on_call(self, call: str) -> ft.CallFault | None:
        """Count a call of a port; the fault that strikes it, if any."""
        number = self._calls.get(call, 0) + 1
        self._calls[call] = number
        for index, fault in enumerate(self.planned):
            if not isinstance(fault, ft.CallFault) or fault.call != call:
                continue
            last = fault.nth + fault.times - 1 if isinstance(fault, ft.FailBefore) else fault.nth
            if fault.nth <= number <= last:
                self._hit.add(index)
                return fault
        return None

    def on_append(self) -> ft.AppendFault | None:
        """Count a write of the driver to the journal; the fault that strikes it, if any."""
        self._appends += 1
        for index, fault in enumerate(self.planned):
            if isinstance(fault, ft.AppendFault) and fault.nth == self._appends:
                self._hit.add(index)
                return fault
        return None

    def calls(self, call: str) -> int:
        """Calls of that name so far."""
        return self._calls.get(call, 0)

    @property
    def appends(self) -> int:
        """Writes of drivers so far."""
        return self._appends

    def on_driver_start(self) -> None:
        """A new process reads the wall clock."""
        for index, fault in enumerate(self.planned):
            if isinstance(fault, ft.ClockJump) and self._world.wall_ahead_s:
                self._hit.add(index)

    def _look_at_windows(self) -> None:
        for index, noticed in self._open_windows.items():
            if noticed():
                self._hit.add(index)

    def _arm(self, index: int, fault: ft.WorldFault) -> None:
        world, at = self._world, self._world.timeline.after
        match fault:
            case ft.CutOff():
                self._arm_cut(index, fault)
            case ft.CutLink():
                at(fault.at_s, world.network.cut_link)
                at(fault.at_s + fault.for_s, world.network.join_link)
                self._open_windows[index] = lambda: world.network.refused_transfers > 0
            case ft.JobDeath():
                at(fault.at_s, lambda: self._kill(index, fault))
            case ft.BadWrite():
                vault = world.vaults[fault.site]
                number = vault.writes + fault.nth
                vault.write_faults[number] = fault.kind
                self._open_windows[index] = lambda: vault.writes >= number
            case ft.DiskFull():
                self._arm_disk(index, fault)
            case ft.ClockJump():
                at(fault.at_s, lambda: world.set_wall_clock(fault.by_s))
            case ft.Word():
                at(fault.at_s, lambda: self._hit.add(index) if self._say(fault.saying) else None)
            case ft.ProxyForgets():
                at(fault.at_s, lambda: self._forget(index))
            case ft.OldPrimary():
                self._arm_old_primary(index, fault)
            case ft.SiteLoss():
                self._arm_loss(index, fault)
            case _:
                assert_never(fault)

    def _forget(self, index: int) -> None:
        """Only while the run lasts: afterwards it is up to the operators' own tools."""
        for proxy in self._world.proxies.values() if self._run_lasts() else ():
            proxy.forget()
            if proxy.forgotten:
                self._hit.add(index)

    def _arm_cut(self, index: int, fault: ft.CutOff) -> None:
        network, site = self._world.network, fault.site

        def begin() -> None:
            before = network.refused.get(site, 0)
            self._open_windows[index] = lambda: network.refused.get(site, 0) > before
            network.cut_off(site)

        self._world.timeline.after(fault.at_s, begin)
        self._world.timeline.after(fault.at_s + fault.for_s, lambda: network.join(site))

    def _arm_loss(self, index: int, fault: ft.SiteLoss) -> None:
        world = self._world

        def begin() -> None:
            self._hit.add(index)
            world.lose(fault.site)

        def end() -> None:
            world.network.join(fault.site)
            if fault.zombie:
                world.revive(fault.site)

        world.timeline.after(fault.at_s, begin)
        world.timeline.after(fault.at_s + fault.for_s, end)

    def _arm_disk(self, index: int, fault: ft.DiskFull) -> None:
        vault = self._world.vaults[fault.site]

        def begin() -> None:
            before = vault.refused_writes
            self._open_windows[index] = lambda: vault.refused_writes > before
            vault.full = True

        def end() -> None:
            vault.full = False

        self._world.timeline.after(fault.at_s, begin)
        self._world.timeline.after(fault.at_s + fault.for_s, end)

    def _kill(self, index: int, fault: ft.JobDeath) -> None:
        job = self._world.newest(fault.site, fault.job)
        if job is None:
            self._world.timeline.after(RETRY_DEATH_S, lambda: self._kill(index, fault))
        elif self._world.kill(fault.site, fault.job, died=True):
            self._hit.add(index)

    def _arm_old_primary(self, index: int, fault: ft.OldPrimary) -> None:
        def on_fence(site: SiteId, fence: Fence) -> None:
            if fence.epoch == 1 and fence.holder != site:
                # Only once, and only where the right to write was lost.
                self._world.timeline.after(fault.after_s, lambda: self._return(index, fault, site, fence))

        self._world.on_fence.append(on_fence)

    def _return(self, index: int, fault: ft.OldPrimary, site: SiteId, fence: Fence) -> None:
        if self._world.bring_back(site, fence.workload, for_s=fault.for_s):
            self._hit.add(index)
