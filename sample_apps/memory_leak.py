"""A server that keeps device memory of every request: the report names the line that asks for it.

topsprof run --stats -- python memory_leak.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": 8, "medium": 40, "large": 200}  # requests
TOKENS = 4096
THREADS = tops.device_properties()["sips"]


@tops.kernel
def count_up(x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 1024):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(y[i:j], tops.load(x[i:j]) + 1.0)


class Server:
    """Answers requests. Results of the last request stay on the device, for whoever asks again."""

    def __init__(self) -> None:
        self.results: dict[int, tops.DevicePointer] = {}

    def answer(self, number: int, tokens: np.ndarray) -> float:
        scratch = tops.malloc(tokens.nbytes)
        result = tops.malloc(tokens.nbytes)  # the leak: kept by the number of the request, and never freed
        tops.memcpy(scratch, tokens)
        x, y = (p.array(tokens.shape, tops.f32) for p in (scratch, result))
        count_up[THREADS](x, y, tokens.size)
        out = float(y[:1].numpy()[0])
        tops.free(scratch)
        self.results[number] = result
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    requests = SIZES[parser.parse_args().size]
    server = Server()
    for number in range(requests):
        with topstx.annotate("request"):
            answer = server.answer(number, np.full(TOKENS, number, np.float32))
            assert answer == number + 1
    free, total = tops.mem_get_info()
    print(f"{requests} requests answered; {total - free:,} bytes of the device's memory in use")


if __name__ == "__main__":
    main()
