from typing_extensions import Buffer

def to_planes(
    data: Buffer,
    form: int,
    predictor: int,
    bases: tuple[Buffer, ...],
    forms: tuple[int, ...],
    parameters: tuple[float, ...],
    out: Buffer,
    /,
) -> None: ...
def from_planes(
    planes: tuple[Buffer, ...],
    count: int,
    form: int,
    predictor: int,
    bases: tuple[Buffer, ...],
    forms: tuple[int, ...],
    parameters: tuple[float, ...],
    out: Buffer,
    /,
) -> None: ...
