"""nvidia-smi's XML read line by line says exactly what the XML parser says, or leaves it to that (M2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.discovery.parsers import nvidia_smi_xml
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.testing.capture_gpus import smi_xml

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "nvidia-smi-xml"
MADE = smi_xml(3, 2).encode()
FILES = [MADE, *(path.read_bytes() for path in sorted(FIXTURES.glob("*.xml")))]
ODD = (
    *(
        b"",
        b"None",
        b"<a>",
        b"</gpu>",
        b"<gpu>",
        b"<pci>",
        b"</pci>",
        b"<serial>1</serial>",
        b"<serial>1</uuid>",
        b'<gpu id="x">',
        b"&amp;",
    ),
    *(b"<uuid> x </uuid>", b"<!-- x -->", b"<a/>", b'<a b="c">1</a>', b"\xc3\xa9", b"<minor_number>\t5\t</minor_number>", b"words <a>"),
    *(b"<mig_devices>", b"</mig_devices>", b"<processes>", b"</processes>", b"<serial></serial>", b"</nvidia_smi_log>", b"<UUID>x</UUID>"),
)


def both(data: bytes) -> tuple[Parsed, Parsed, bool]:
    """What each way says, and whether the quick one was taken."""
    capture = Capture("f", data, "h1", 1.0)
    plain = nvidia_smi_xml.description_of
    taken = []

    def noted(*arguments: object, **named: object) -> object:
        taken.append(plain(*arguments, **named) is not None)  # type: ignore[arg-type]  # as it is called
        return plain(*arguments, **named)  # type: ignore[arg-type]  # as it is called

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvidia_smi_xml, "description_of", noted)
        quick = nvidia_smi_xml.PARSER.parse(capture)
        patch.setattr(nvidia_smi_xml, "description_of", lambda *_, **__: None)
        return quick, nvidia_smi_xml.PARSER.parse(capture), taken == [True]


@pytest.mark.parametrize("data", FILES, ids=range(len(FILES)))
def test_whole_files_say_the_same(data: bytes) -> None:
    quick, slow, _ = both(data)
    assert quick == slow
    assert quick.facts


def test_usual_output_is_read_by_lines() -> None:
    assert both(MADE)[2]
    assert both(b"user@gpu01:~$ nvidia-smi -q -x\n" + MADE)[2]


@given(st.data())
@settings(max_examples=150)
def test_damaged_files_say_the_same(data: st.DataObject) -> None:
    lines = FILES[data.draw(st.integers(0, len(FILES) - 1))].split(b"\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.integers(0, 3)):
            case 0:
                del lines[min(at, other) : min(at, other) + abs(at - other) % 9]
            case 1:
                lines.insert(at, data.draw(st.sampled_from(ODD)))
            case 2:
                lines[at] = b"\t\t" + data.draw(st.sampled_from(ODD))
            case _:
                lines[at], lines[other] = lines[other], lines[at]
        lines = lines or [b""]
    quick, slow, _ = both(b"\n".join(lines))
    assert quick == slow
