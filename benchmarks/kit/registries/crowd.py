"""A process with many clients that watch, on one loop over epoll."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..processes import Child, commands, running, say
from .wires import WIRES, Wire

_AT_ONCE: Final = 65_536
_SETTLED_S: Final = 0.5
_DEADLINE_S: Final = 60.0


@contextmanager
def crowd(name: str, address: str, broker: str, count: int) -> Iterator[Child]:
    """Run so many clients of a registry; they all watch when the block begins.

    For `["see"]` it says when each knew of the next change (ns); for `["idle", SECONDS]` it lets them be for
    so long, and says so.
    """
    with running(watch_all, name, address, broker, count) as child:
        child.await_ready()
        yield child


def watch_all(name: str, address: str, broker: str, count: int) -> None:
    """In the other process: be those clients."""
    loop = Crowd([WIRES[name](address, broker) for _ in range(count)])
    loop.begin()
    say()
    for what, *arguments in commands():
        if what == "idle":
            loop.be(float(arguments[0]))
            say()
        else:
            say()
            say(loop.see())


class Crowd:
    """Clients whose sockets one thread serves."""

    def __init__(self, wires: list[Wire]) -> None:
        self._wires = wires
        self._poll = select.epoll()
        self._places = {
            one.fileno(): (wire, number) for wire in wires for number, one in enumerate(wire.sockets)
        }
        for descriptor in self._places:
            self._poll.register(descriptor, select.EPOLLIN)
        idle_s = wires[0].idle_s
        self._pause_s = None if idle_s is None else idle_s / len(wires)
        self._next = 0
        self._due_s = time.monotonic()

    def begin(self) -> None:
        """Let all begin, until each has been answered and there is nothing more to hear."""
        for wire in self._wires:
            wire.begin()
        silent = {*self._wires}
        give_up_s = time.monotonic() + _DEADLINE_S
        while silent:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"{len(silent)} of {len(self._wires)} clients do not watch")
            silent -= {wire for wire, _, _ in self._heard(_SETTLED_S)}
        self.be(_SETTLED_S)

    def be(self, seconds: float) -> None:
        """Do what they do while nothing happens."""
        end_s = time.monotonic() + seconds
        while (rest_s := end_s - time.monotonic()) > 0:
            for _ in self._heard(rest_s):
                pass

    def see(self) -> list[int]:
        """Return when each knew of the next change; raises TimeoutError."""
        arrivals: dict[Wire, int] = {}
        give_up_s = time.monotonic() + _DEADLINE_S
        while len(arrivals) < len(self._wires):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"only {len(arrivals)} of {len(self._wires)} clients know of it")
            arrivals |= {wire: at_ns for wire, at_ns, knows in self._heard(1.0) if knows}
        return [*arrivals.values()]

    def _heard(self, wait_s: float) -> Iterator[tuple[Wire, int, bool]]:
        """Ask what is due, wait, and yield who heard something, when, and whether it knows by that."""
        now_s = time.monotonic()
        if self._pause_s is not None:
            while self._due_s <= now_s:
                self._wires[self._next].ask()
                self._next = (self._next + 1) % len(self._wires)
                self._due_s += self._pause_s
            wait_s = max(0.0, min(wait_s, self._due_s - now_s))
        found: list[tuple[int, bytes, int]] = []
        for descriptor, _ in self._poll.poll(wait_s):
            wire, number = self._places[descriptor]
            data = wire.sockets[number].recv(_AT_ONCE)
            found.append((descriptor, data, time.monotonic_ns()))
        for descriptor, data, at_ns in found:
            wire, number = self._places[descriptor]
            if not data:
                raise ConnectionResetError("the server has closed the connection of a client")
            yield wire, at_ns, wire.received(number, data)


def arrivals_ms(crowd_: Child, act: Any) -> list[float]:
    """Let the clients wait, make a change, and return after how many ms each knew of it."""
    crowd_.tell(["see"])
    begin_ns = time.monotonic_ns()
    act()
    return [(at_ns - begin_ns) / 1e6 for at_ns in crowd_.answer()]
