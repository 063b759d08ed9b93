"""A program whose memory grows: a cache without a limit, beside one that has one.

topsprof run -t pymem --stats -- python leaky.py
"""

from __future__ import annotations

import argparse
from collections import OrderedDict

SIZES = {"small": 4_000, "medium": 20_000, "large": 100_000}  # requests
LIMIT = 100


class Session:
    """What is kept of a request."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pages = [f"page {number} {page}" * 4 for page in range(20)]


class Sessions:
    """By mistake nothing is ever taken out."""

    def __init__(self) -> None:
        self.kept: dict[int, Session] = {}

    def open(self, number: int) -> Session:
        session = Session(number)
        self.kept[number] = session  # the leak
        return session


class Thumbnails:
    """The oldest make room for the newest."""

    def __init__(self) -> None:
        self.kept: OrderedDict[int, bytearray] = OrderedDict()

    def make(self, number: int) -> bytearray:
        image = bytearray(20_000)
        self.kept[number] = image
        if len(self.kept) > LIMIT:
            self.kept.popitem(last=False)
        return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    requests = SIZES[parser.parse_args().size]
    sessions, thumbnails = Sessions(), Thumbnails()
    done = 0
    for number in range(requests):
        done += len(sessions.open(number).pages) + len(thumbnails.make(number))
    print(f"{requests} requests: {len(sessions.kept)} sessions, {len(thumbnails.kept)} thumbnails are kept")


if __name__ == "__main__":
    main()
