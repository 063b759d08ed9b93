"""Forward pass of a transformer on the sample kernels, layer by layer, checked against numpy.

topsprof run --stats -- python transformer_block.py --size medium
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import topstx
from kernels.bias_gelu import bias_gelu
from kernels.flash_attention import flash_attention
from kernels.gemm_double_buffered import gemm_double_buffered
from kernels.layer_norm import layer_norm
from kernels.vector_add import vector_add

import tops_kit as tops

SIZES = {  # tokens, width, heads, layers
    "small": (96, 128, 4, 2),
    "medium": (256, 256, 8, 3),
    "large": (512, 512, 8, 4),
}
EPS = 1e-5
THREADS = tops.device_properties()["sips"]  # one for each core of the device


class Layer:
    """The weights of a layer, in the device's memory."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.on_device = {name: tops.asarray(value) for name, value in weights.items()}

    def __getattr__(self, name: str) -> tops.Array:
        return self.on_device[name]


def norm(x: tops.Array, weight: tops.Array, bias: tops.Array) -> tops.Array:
    y = tops.empty_like(x)
    layer_norm[THREADS](x, weight, bias, y, rows=x.shape[0], eps=EPS, COLS=x.shape[1])
    return y


def matmul(a: tops.Array, b: tops.Array) -> tops.Array:
    c = tops.empty((a.shape[0], b.shape[1]))
    gemm_double_buffered[THREADS](a, b, c, BM=32, BN=64, BK=64)
    return c


def add(x: tops.Array, y: tops.Array) -> tops.Array:
    z = tops.empty_like(x)
    vector_add[THREADS](x.ravel(), y.ravel(), z.ravel(), n=x.size, BLOCK=4096)
    return z


def attend(qkv: tops.Array, heads: int) -> tops.Array:
    tokens, width = qkv.shape[0], qkv.shape[1] // 3
    q, k, v = (part.transpose(1, 0, 2) for part in qkv.reshape(tokens, 3, heads, -1).transpose(1, 0, 2, 3))
    out = tops.empty((tokens, heads, width // heads))
    scale = (width // heads) ** -0.5
    flash_attention[THREADS](q, k, v, out.transpose(1, 0, 2), scale, D=width // heads, BQ=64, BK=64)
    return out.reshape(tokens, width)


def forward(x: tops.Array, layers: list[Layer], heads: int) -> tops.Array:
    for number, layer in enumerate(layers):
        with topstx.annotate(f"layer {number}"):
            with topstx.annotate("attention"):
                qkv = matmul(norm(x, layer.norm1, layer.shift1), layer.qkv)
                x = add(x, matmul(attend(qkv, heads), layer.out))
            with topstx.annotate("mlp"):
                inner = matmul(norm(x, layer.norm2, layer.shift2), layer.up)
                hidden = tops.empty_like(inner)
                bias_gelu[THREADS](inner, layer.bias, hidden, rows=inner.shape[0], COLS=inner.shape[1])
                x = add(x, matmul(hidden, layer.down))
    return x


def make(tokens: int, width: int, layers: int) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    """Tokens and weights, the same in every run."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) / math.sqrt(shape[0])

    shapes = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    vectors = {"norm1": width, "shift1": width, "norm2": width, "shift2": width, "bias": 4 * width}
    weights = [
        {name: normal(*shape) for name, shape in shapes.items()}
        | {name: rng.uniform(0.5, 1.5, size).astype(np.float32) for name, size in vectors.items()}
        for _ in range(layers)
    ]
    return rng.standard_normal((tokens, width), np.float32), weights


def reference(x: np.ndarray, weights: list[dict[str, np.ndarray]], heads: int) -> np.ndarray:
    """The same in numpy."""
    tokens, width = x.shape

    def norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        v = x - x.mean(axis=1, keepdims=True)
        return v / np.sqrt((v * v).mean(axis=1, keepdims=True) + EPS) * weight + bias

    x = x.astype(np.float64)
    for w in weights:
        qkv = (norm(x, w["norm1"], w["shift1"]) @ w["qkv"]).reshape(tokens, 3, heads, -1)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        scores = q @ k.swapaxes(1, 2) / math.sqrt(width // heads)
        e = np.exp(scores - scores.max(axis=2, keepdims=True))
        mixed = (e / e.sum(axis=2, keepdims=True) @ v).swapaxes(0, 1).reshape(tokens, width)
        x = x + mixed @ w["out"]
        h = norm(x, w["norm2"], w["shift2"]) @ w["up"] + w["bias"]
        x = x + 0.5 * h * (1 + np.vectorize(math.erf)(h / math.sqrt(2))) @ w["down"]
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    tokens, width, heads, count = SIZES[parser.parse_args().size]
    x, weights = make(tokens, width, count)
    with topstx.annotate("load weights"):
        layers = [Layer(w) for w in weights]
        on_device = tops.asarray(x)
    with topstx.annotate("forward"):
        y = forward(on_device, layers, heads).numpy()
    error = np.abs(y - reference(x, weights, heads)).max()
    assert error < 1e-3, f"the greatest difference from numpy is {error}"
    print(f"{count} layers, {tokens} tokens of {width}: as numpy's, up to {error:.1e}")


if __name__ == "__main__":
    main()
