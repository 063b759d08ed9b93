"""Metrics of the devices for Prometheus, over HTTP on this machine alone."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tops_kit.efsmi.machine import Look, Machine
from tops_kit.errors import UserError
from tops_kit.gcu.state.card import Card
from tops_kit.gcu.state.snapshot import Snapshot

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 9445
TOKEN = "TOPS_EFSMI_TOKEN"
_OURS = ("localhost", ADDRESS)  # a page in a browser that gives itself our address has another name
_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# name, kind, help, value
_METRICS: tuple[tuple[str, str, str, Callable[[Card, Snapshot], float]], ...] = (
    (
        "usage",
        "gauge",
        "time in which any kernel ran, percent of the last second",
        lambda _, n: 100 * n.active,
    ),
    ("sip_usage", "gauge", "SIP time in use, percent of the last second", lambda _, n: 100 * n.sip_use),
    ("memory_used_bytes", "gauge", "device memory in use", lambda _, n: n.used_bytes),
    ("memory_total_bytes", "gauge", "device memory", lambda c, _: c.spec.l3_bytes),
    ("power_consumption", "gauge", "power in watts (a model)", lambda _, n: n.power_w),
    ("temperatures", "gauge", "temperature in degrees Celsius (a model)", lambda _, n: n.temperature_c),
    ("sips_reserved", "gauge", "SIPs that a process has alone", lambda _, n: n.sips_reserved),
    ("processes", "gauge", "processes that use the device", lambda _, n: len({p.pid for p in n.processes})),
    ("kernels_total", "counter", "kernels that ran", lambda _, n: n.kernels),
    ("busy_sip_seconds_total", "counter", "SIP time in use", lambda _, n: n.busy_sip_ns / 1e9),
    ("pcie_tx_bytes_total", "counter", "bytes from device to host", lambda _, n: n.up_bytes),
    ("pcie_rx_bytes_total", "counter", "bytes from host to device", lambda _, n: n.down_bytes),
    ("ecc_corrected_total", "counter", "corrected memory errors", lambda _, n: n.ecc.corrected_ever),
    ("ecc_uncorrected_total", "counter", "uncorrected memory errors", lambda _, n: n.ecc.uncorrected_ever),
    ("resets_total", "counter", "resets of the device", lambda _, n: n.resets),
)


def metrics(look: Look) -> str:
    """The text that Prometheus reads."""
    lines: list[str] = []
    for name, kind, what, value in _METRICS:
        lines += [f"# HELP enflame_gcu_{name} Simulated: {what}.", f"# TYPE enflame_gcu_{name} {kind}"]
        for card, now in look.devices:
            lines.append(f"enflame_gcu_{name}{{{_labels(card)}}} {_number(value(card, now))}")
    name = "process_memory_used_bytes"
    lines += [
        f"# HELP enflame_gcu_{name} Simulated: device memory of a process.",
        f"# TYPE enflame_gcu_{name} gauge",
    ]
    for card, now in look.devices:
        for pid, used in sorted(_by_process(now).items()):
            lines.append(f'enflame_gcu_{name}{{{_labels(card)},pid="{pid}"}} {used}')
    return "\n".join(lines) + "\n"


def serve(machine: Machine, port: int, token: str | None) -> Iterator[str]:
    """Serve until the process is stopped; yields the address once it can be reached. Raises UserError."""
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OverflowError:
        raise UserError(f"port {port}: ports go from 0 to 65535") from None
    except OSError as error:
        raise UserError(
            f"port {port} of {ADDRESS} can't be used: {error.strerror}: name another with --port (0: any)"
        ) from None
    server.machine, server.token = machine, token
    with server:
        yield f"http://{ADDRESS}:{server.server_address[1]}/metrics"
        server.serve_forever(poll_interval=0.2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    machine: Machine
    token: str | None

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away is nothing to tell; anything else is one line."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            print(f"efsmi: exporter: {type(error).__name__}: {error}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "efsmi"
    sys_version = ""
    timeout = 10

    def do_GET(self) -> None:
        """Answer /metrics; / says where that is."""
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if host not in _OURS:
            self._answer(403, f"this exporter answers to {' and '.join(_OURS)} only\n")
        elif self.server.token and not secrets.compare_digest(given, f"Bearer {self.server.token}".encode()):
            self._answer(401, f"the token of {TOKEN} is missing: Authorization: Bearer TOKEN\n")
        elif self.path.split("?", 1)[0] == "/metrics":
            try:
                self._answer(200, metrics(self.server.machine.look()))
            except UserError as error:
                self._answer(500, f"{error}\n")
        elif self.path == "/":
            self._answer(200, "efsmi exporter of simulated devices: /metrics\n")
        else:
            self._answer(404, "there is /metrics\n")

    def _answer(self, code: int, content: str) -> None:
        data = content.encode("utf-8")
        self.send_response(code)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not told: a scraper makes one every few seconds."""


def _labels(card: Card) -> str:
    pairs = (("dev", card.index), ("name", card.spec.name), ("uuid", card.uuid), ("bus_id", card.bus))
    return ",".join(f'{key}="{_escaped(str(value))}"' for key, value in (*pairs, ("simulated", "true")))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _by_process(now: Snapshot) -> dict[int, int]:
    out: dict[int, int] = {}
    for process in now.processes:
        out[process.pid] = out.get(process.pid, 0) + process.used_bytes
    return out
