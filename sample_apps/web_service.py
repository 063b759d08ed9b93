"""A web service on asyncio, over real sockets, some of whose requests are slow: `--cause` says why.

topsprof run --stats -- python web_service.py --cause lock      # or gc, blocking; none: all are fast
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import socket
import subprocess
import sys
import threading
import time

SIZES = {"small": 1.5, "medium": 4.0, "large": 20.0}  # seconds of load
CAUSES = ("lock", "gc", "blocking", "none")
CLIENTS = 6
SLOW_S = 0.05
PRICES = {f"item{number}": number * 1.25 for number in range(1000)}


class Order:
    """One of its lines knows its order: such circles are freed by the garbage collector only."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = [OrderLine(self, item) for item in range(4)]


class OrderLine:
    def __init__(self, order: Order, item: int) -> None:
        self.order = order
        self.item = {"name": f"item{item}"}


class Service:
    """Answers GET /price, GET /orders and GET /stock."""

    def __init__(self, cause: str, warehouse_port: int) -> None:
        self.cause = cause
        self.warehouse = ("127.0.0.1", warehouse_port)
        self.prices_lock = threading.Lock()
        self.stopping = threading.Event()
        self.archive = [Order(number) for number in range(30_000 if cause == "gc" else 10)]

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            path = line.split()[1].decode()
            while await reader.readline() not in (b"\r\n", b""):
                pass
            body = json.dumps(await self.answer(path)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
        writer.close()

    async def answer(self, path: str) -> object:
        if path == "/orders":
            return await self.get_orders()
        if path == "/stock":
            return await self.get_stock()
        return await self.get_price(path.rpartition("/")[2])

    async def get_price(self, item: str) -> object:
        with self.prices_lock:  # a threading.Lock: while another thread has it, the event loop stands still
            return PRICES[item]

    async def get_orders(self) -> object:
        many = 8_000 if self.cause == "gc" else 10
        found = [Order(number) for number in range(many)]  # each time the collector looks at all there is
        return sum(order.number for order in found)

    async def get_stock(self) -> object:
        if self.cause == "blocking":
            return self.ask_warehouse()
        reader, writer = await asyncio.open_connection(*self.warehouse)
        stock = await reader.readline()
        writer.close()
        return int(stock)

    def ask_warehouse(self) -> int:
        with socket.create_connection(self.warehouse) as connection:
            return int(connection.recv(100))  # an ordinary socket: the event loop waits, too

    def refresh_prices(self) -> None:
        """What the thread `prices` does."""
        while not self.stopping.wait(0.2):
            fresh = [(item, self.fetch_price(number)) for number, item in enumerate(PRICES) if number < 60]
            if self.cause != "lock":
                with self.prices_lock:
                    PRICES.update(fresh)
                continue
            with self.prices_lock:
                for number, item in enumerate(PRICES):
                    if number < 60:
                        PRICES[item] = self.fetch_price(number)  # slow, and all the while it has the lock

    def fetch_price(self, number: int) -> float:
        time.sleep(0.002)  # a far database
        return number * 1.25


async def serve(cause: str, seconds: float) -> dict[str, list[float]]:
    """Serves while another process asks; returns what it measured: seconds of each request by path."""
    words = [sys.executable, __file__, "--load", str(seconds)]
    load = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert load.stdin is not None and load.stdout is not None
    service = Service(cause, int(await load.stdout.readline()))
    gc.collect()
    server = await asyncio.start_server(service.connection, "127.0.0.1", 0)
    thread = threading.Thread(target=service.refresh_prices, name="prices")
    thread.start()
    load.stdin.write(b"%d\n" % server.sockets[0].getsockname()[1])
    measured = json.loads(await load.stdout.read())
    await load.wait()
    service.stopping.set()
    thread.join()
    server.close()
    return measured


async def ask(port: int, paths: itertools.cycle[str], until: float, took: dict[str, list[float]]) -> None:
    """One client: a request each 10 ms."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (begin := loop.time()) < until:
        path = next(paths)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.split()[-1]))
        took[path.split("/")[1]].append(loop.time() - begin)
        await asyncio.sleep(0.01)
    writer.close()


async def load(seconds: float) -> None:
    """The other process: the clients, and the warehouse that the service asks."""

    async def warehouse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.08)
        writer.write(b"42\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(warehouse, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    port = int(await asyncio.to_thread(sys.stdin.readline))
    took: dict[str, list[float]] = {"price": [], "orders": [], "stock": []}
    # of twenty requests one asks for orders, and one for the stock
    paths = itertools.cycle(["/orders", *["/price/item7"] * 9, "/stock", *["/price/item9"] * 9])
    until = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(ask(port, paths, until, took) for _ in range(CLIENTS)))
    server.close()
    print(json.dumps(took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--cause", choices=CAUSES, default="lock")
    parser.add_argument("--load", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load is not None:
        asyncio.run(load(args.load))
        return
    for path, took in asyncio.run(serve(args.cause, SIZES[args.size])).items():
        took.sort()
        slow = sum(seconds > SLOW_S for seconds in took)
        print(
            f"GET /{path}: {len(took)} requests, median {took[len(took) // 2] * 1e3:.1f} ms, "
            f"longest {took[-1] * 1e3:.0f} ms, {slow} over {SLOW_S * 1e3:.0f} ms"
        )


if __name__ == "__main__":
    main()
