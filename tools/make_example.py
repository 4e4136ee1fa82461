"""Makes examples/two-halls/{old-hall,new-hall}.tar.gz and cords.yaml: captures of two halls with 64 hosts each, 1,024 GPUs together.

The same run makes the same bytes. In the new hall one GPU has a link less than its siblings, and one adapter is down: an assessment must
find both.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

from bridgehead.testing.captures import HOSTS_A_RACK, Cluster, files

HOME = Path(__file__).parents[1] / "examples" / "two-halls"
HALLS = (Cluster(64, "old", "old-hall"), Cluster(64, "new", "new-hall"))
LINK = "\t Link 5: 26.562 GB/s\n"


def damaged(path: str, text: str) -> str:
    """What is wrong in the new hall."""
    if path == "new00017/nvidia-smi-nvlink.txt":
        before, gpu, after = text.partition("GPU 3:")
        return before + gpu + after.replace(LINK, "\t Link 5: <inactive>\n", 1)
    if path in ("new00042/ibstat.txt", "new00042/ibv-devinfo.txt"):
        begin = text.index("mlx5_6")
        down = text[begin:].replace("State: Active", "State: Down", 1).replace("LinkUp", "Polling", 1)
        return text[:begin] + down.replace("PORT_ACTIVE (4)", "PORT_DOWN (1)", 1)
    return text


def archive(hall: Cluster) -> bytes:
    """All files of a hall, as the collector's archives are."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, text in files(hall):
            data = damaged(path, text).encode()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(data), 1796025600, 0o644
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def cords() -> str:
    """Which circuit each power supply hangs on, as somebody traced it: three on feed A and three on feed B of the rack."""
    lines = ["# Traced on 2026-11-18, supply by supply (jo, kim).", "sites:"]
    for hall in HALLS:
        lines += [f"  {hall.site}:", "    nodes:"]
        for number in range(hall.nodes):
            rack = f"R{number // HOSTS_A_RACK + 1:04d}"
            lines.append(f"      {hall.host(number)}: {{circuits: [{', '.join([f'{rack}-a', f'{rack}-b'] * 3)}]}}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write archives and cords."""
    HOME.mkdir(parents=True, exist_ok=True)
    for hall in HALLS:
        (HOME / f"{hall.site}.tar.gz").write_bytes(archive(hall))
    (HOME / "cords.yaml").write_text(cords(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
