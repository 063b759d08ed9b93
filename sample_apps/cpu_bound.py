"""A program that computes: which of its functions and lines take the time is known beforehand.

topsprof run --stats -- python cpu_bound.py
"""

from __future__ import annotations

import argparse
import hashlib

SIZES = {"small": 12, "medium": 60, "large": 400}  # rounds
BLOCK = bytes(1 << 20)


def primes(limit: int) -> int:
    """Most of the time: a sieve written in Python."""
    sieve = bytearray([1]) * limit
    found = 0
    for number in range(2, limit):
        if sieve[number]:
            found += 1
            for multiple in range(number * number, limit, number):
                sieve[multiple] = 0  # this line and the one above are the hottest
    return found


def words(count: int) -> int:
    """Half as long."""
    seen: dict[str, int] = {}
    for number in range(count):
        word = f"word{number % 997}"
        seen[word] = seen.get(word, 0) + 1
    return len(seen)


def checksum(blocks: int) -> str:
    """Native code, named by its library: SHA-256 of OpenSSL, which lets go of the GIL."""
    digest = hashlib.sha256()
    for _ in range(blocks):
        digest.update(BLOCK)
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    rounds = SIZES[parser.parse_args().size]
    for _ in range(rounds):
        found = primes(200_000), words(60_000), checksum(8)
    print(f"{rounds} rounds: {found[0]} primes, {found[1]} words, {found[2][:8]}")


if __name__ == "__main__":
    main()
