"""The vault's codec: bytes of a block to fewer bytes and back, lossless; pure (design section 5).

``encode`` finds the shortest of raw, zstd, planes and predictions by a trial on a sample, ``encode_alike`` does again what was
found for a block of the same tensor; ``decode`` gives the same bits back and checks their hash.
"""

from bridgehead.vault.codec.decode import decode
from bridgehead.vault.codec.encode import Base, Candidate, Encoded, Hint, encode, encode_alike
from bridgehead.vault.codec.forms import Form, form_of
from bridgehead.vault.codec.frame import BadFrame, BaseRef, Codec, Frame, parse
from bridgehead.vault.codec.predict import Predictor

__all__ = [
    "BadFrame",
    "Base",
    "BaseRef",
    "Candidate",
    "Codec",
    "Encoded",
    "Form",
    "Frame",
    "Hint",
    "Predictor",
    "decode",
    "encode",
    "encode_alike",
    "form_of",
    "parse",
]
