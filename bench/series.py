"""Training series for the benchmarks of the vault: a small language model under AdamW in mixed precision, in plain numpy.

Word-level text of Python's own standard library; context of eight words; embedding, two hidden layers with layer norm, output layer;
about 9 M parameters. The forward pass uses the bf16 copy of the fp32 master weights, as mixed-precision trainers do; a checkpoint holds
bf16 copy, master, first and second moment. Order of operations in the optimizer as in PyTorch's AdamW.

Run: python bench/series.py FOLDER [DISTANCE ...] writes three series, each state as a folder of safetensors files: ``scratch`` (from random
weights), ``tuned`` (begins with the bf16 weights of ``scratch``, other text, a thirtieth of the rate, new moments), ``lora`` (the same
weights frozen, adapters of rank 16 trained). ``base`` is the state that the distances, in steps, count from.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, WIDTH, CONTEXT, HIDDEN, NARROW, BATCH = 4096, 256, 8, 1536, 768, 128
BETA1, BETA2, EPSILON, DECAY, RATE, WARM_UP = 0.9, 0.999, 1e-8, 0.1, 3e-4, 50

Array = np.ndarray[Any, np.dtype[np.float32]]
State = dict[str, np.ndarray[Any, np.dtype[Any]]]


def words(pattern: str = "*.py") -> np.ndarray[Any, np.dtype[np.int64]]:
    """The text of some files as numbers; 0 stands for rare words."""
    common = [word for word, _ in Counter(_text("*.py")).most_common(VOCABULARY - 1)]
    numbers = {word: number + 1 for number, word in enumerate(common)}
    return np.array([numbers.get(word, 0) for word in _text(pattern)], dtype=np.int64)


def _text(pattern: str) -> list[str]:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob(pattern))
    return re.findall(r"\w+|[^\w\s]|\n", "\n".join(file.read_text(errors="replace") for file in files))


def to_bf16(values: Array) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Round to nearest even, as trainers do."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits: np.ndarray[Any, np.dtype[np.uint16]]) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


class Trainer:
    """Everything from one seed; ``step`` goes one step on."""

    def __init__(self, seed: int = 7) -> None:
        generator = np.random.default_rng(seed)
        shapes = {
            "embedding": (VOCABULARY, WIDTH), "first.weight": (WIDTH * CONTEXT, HIDDEN), "first.bias": (HIDDEN,),
            "norm.gain": (HIDDEN,), "second.weight": (HIDDEN, NARROW), "second.bias": (NARROW,), "out.weight": (NARROW, VOCABULARY),
        }  # fmt: skip
        self.master: dict[str, Array] = {}
        for name, shape in shapes.items():
            scale = 0.02 if len(shape) == 2 else 0.0
            self.master[name] = (generator.standard_normal(shape) * scale).astype(np.float32)
        self.master["norm.gain"] += 1
        self.rate = RATE
        self._generator = generator
        self._text = words()
        self.begin()

    def begin(self) -> None:
        """The optimizer knows nothing."""
        self.first = {name: np.zeros_like(value) for name, value in self.master.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.master.items()}
        self.steps = 0

    def step(self) -> float:
        """One step of AdamW; returns the loss."""
        places = self._generator.integers(0, len(self._text) - CONTEXT - 1, BATCH)
        inputs = self._text[places[:, None] + np.arange(CONTEXT)]
        loss, gradients = self._gradients(inputs, self._text[places + CONTEXT])
        self.steps += 1
        rate = self.rate * min(1.0, self.steps / WARM_UP)
        one = np.float32
        correction = (1 - BETA2**self.steps) ** 0.5
        for name, gradient in gradients.items():
            weights, first, second = self.master[name], self.first[name], self.second[name]
            if weights.ndim == 2:
                weights *= one(1 - rate * DECAY)
            first += one(1 - BETA1) * (gradient - first)
            second *= one(BETA2)
            second += one(1 - BETA2) * gradient * gradient
            weights -= one(rate / (1 - BETA1**self.steps)) * (first / (np.sqrt(second) / one(correction) + one(EPSILON)))
        return loss

    def _gradients(self, inputs: Any, wanted: Any) -> tuple[float, dict[str, Array]]:
        return self._pass({name: from_bf16(to_bf16(value)) for name, value in self.master.items()}, inputs, wanted)

    def _pass(self, w: dict[str, Array], inputs: Any, wanted: Any) -> tuple[float, dict[str, Array]]:
        x0 = w["embedding"][inputs].reshape(BATCH, -1)
        h1 = x0 @ w["first.weight"] + w["first.bias"]
        spread = 1 / np.sqrt((h1 * h1).mean(1, keepdims=True) + 1e-5)
        normal = h1 * spread
        a1 = np.maximum(normal * w["norm.gain"], 0)
        h2 = a1 @ w["second.weight"] + w["second.bias"]
        a2 = np.maximum(h2, 0)
        scores = a2 @ w["out.weight"]
        scores -= scores.max(1, keepdims=True)
        odds = np.exp(scores)
        odds /= odds.sum(1, keepdims=True)
        loss = float(-np.log(odds[np.arange(BATCH), wanted] + 1e-9).mean())
        odds[np.arange(BATCH), wanted] -= 1
        d_scores = odds / BATCH
        d_h2 = (d_scores @ w["out.weight"].T) * (h2 > 0)
        d_a1 = (d_h2 @ w["second.weight"].T) * (a1 > 0)
        d_normal = d_a1 * w["norm.gain"]
        d_h1 = spread * (d_normal - normal * (d_normal * normal).mean(1, keepdims=True))
        d_embedding = np.zeros_like(w["embedding"])
        np.add.at(d_embedding, inputs.reshape(-1), (d_h1 @ w["first.weight"].T).reshape(-1, WIDTH))
        return loss, {
            "embedding": d_embedding, "first.weight": x0.T @ d_h1, "first.bias": d_h1.sum(0), "norm.gain": (d_a1 * normal).sum(0),
            "second.weight": a1.T @ d_h2, "second.bias": d_h2.sum(0), "out.weight": a2.T @ d_scores,
        }  # fmt: skip

    def state(self) -> State:
        """What a checkpoint holds, copied."""
        result: State = {}
        for name, value in self.master.items():
            result[f"model.{name}"] = to_bf16(value)
            result[f"master.{name}"] = value.copy()
            result[f"exp_avg.{name}"] = self.first[name].copy()
            result[f"exp_avg_sq.{name}"] = self.second[name].copy()
        return result


class Tuner(Trainer):
    """Goes on from weights that were published in bf16."""

    def __init__(self, weights: State, seed: int = 8) -> None:
        super().__init__(seed)
        self.master = {name: from_bf16(weights[f"model.{name}"]) for name in self.master}
        self.rate = RATE / 30
        self._text = words("*/*.py")
        self.begin()


class Adapters(Tuner):
    """Weights that stay, and products of two thin matrices that are trained beside them."""

    RANK = 16

    def __init__(self, weights: State, seed: int = 9) -> None:
        super().__init__(weights, seed)
        self.frozen, self.rate = self.master, RATE
        self.master = {}
        for name in ("first.weight", "second.weight", "out.weight"):
            rows, columns = self.frozen[name].shape
            self.master[f"{name}.down"] = (self._generator.standard_normal((rows, self.RANK)) * 0.02).astype(np.float32)
            self.master[f"{name}.up"] = np.zeros((self.RANK, columns), np.float32)
        self.begin()

    def _gradients(self, inputs: Any, wanted: Any) -> tuple[float, dict[str, Array]]:
        whole = dict(self.frozen)
        pairs = [(name, self.master[f"{name}.down"], self.master[f"{name}.up"]) for name in whole if f"{name}.up" in self.master]
        for name, down, up in pairs:
            whole[name] = whole[name] + down @ up
        loss, gradients = self._pass(whole, inputs, wanted)
        return loss, {key: value for name, down, up in pairs for key, value in (
            (f"{name}.down", gradients[name] @ up.T), (f"{name}.up", down.T @ gradients[name]))}  # fmt: skip

    def state(self) -> State:
        """Frozen weights in bf16, adapters in fp32 with their moments."""
        adapters = {name: value for name, value in super().state().items() if not name.startswith("model.")}
        return {f"model.{name}": to_bf16(value) for name, value in self.frozen.items()} | adapters


def series(base: int = 100, distances: tuple[int, ...] = (1, 10, 30, 300)) -> Iterator[tuple[int, State]]:
    """The state after ``base`` steps, then at each distance from it."""
    yield from states_of(Trainer(), base, distances)


def states_of(trainer: Trainer, base: int, distances: tuple[int, ...]) -> Iterator[tuple[int, State]]:
    """The state after ``base`` steps, then at each distance from it."""
    for stop in [base] + [base + distance for distance in distances]:
        while trainer.steps < stop:
            trainer.step()
        yield stop - base, trainer.state()


def write(state: State, folder: Path) -> None:
    """One safetensors file for each class of tensors."""
    folder.mkdir(parents=True)
    for kind in dict.fromkeys(name.split(".")[0] for name in state):
        table, at, tensors = {}, 0, {name: value for name, value in state.items() if name.startswith(f"{kind}.")}
        for name, value in tensors.items():
            dtype = "BF16" if value.dtype == np.uint16 else "F32"
            table[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": [at, at := at + value.nbytes]}
        header = json.dumps(table).encode()
        header += b" " * (-len(header) % 8)
        with open(folder / f"{kind}.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for value in tensors.values():
                file.write(value.tobytes())


def main() -> None:
    root, distances = Path(sys.argv[1]), tuple(map(int, sys.argv[2:])) or (1, 10, 30, 300)
    last: State = {}
    for distance, last in series(distances=distances):
        write(last, root / "scratch" / (str(distance) if distance else "base"))
    for name, trainer in {"tuned": Tuner(last), "lora": Adapters(last)}.items():
        for distance, state in states_of(trainer, 20, distances if name == "tuned" else distances[:2]):
            write(state, root / name / (str(distance) if distance else "base"))


if __name__ == "__main__":
    main()
