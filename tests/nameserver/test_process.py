"""The name server front as operators run it: a process, a real server, real sockets."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sharedroutes.nameserver.metrics import PREFIX
from sharedroutes.nameserver.status import FAMILIES
from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import RequestCode, ResponseCode
from tests.broker_agent.sidecar_host import Systemd
from tests.cluster.certificates import Certificates
from tests.nameserver.running import FrontRun, Peer
from tests.ports import free_port
from tests.support import wait_until

pytestmark = pytest.mark.long

KEY = {"namespace": "n", "key": "k", "value": "v"}


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """Return the socket that systemd reads."""
    systemd = Systemd(str(tmp_path / "notify"))
    yield systemd
    systemd.socket.close()


def ask_slowly(front: FrontRun, peer: Peer, server: EmbeddedServer) -> None:
    """Send a request that waits for the store, which stands still."""
    front.until_ready()
    server.pause()
    peer.send(RequestCode.PUT_KV_CONFIG, KEY)

    def is_under_way() -> bool:
        return bool(front.state()["numbers"].get("in_flight", 0))

    wait_until(is_under_way, timeout_s=60.0, description="the request is under way")


def is_refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=10.0).close()
    except ConnectionRefusedError:
        return True
    return False


WITHOUT = """
import sys
sys.modules[{!r}] = None
from sharedroutes.nameserver.command import nameserver_command
nameserver_command()
"""


@pytest.mark.parametrize("program", ["", WITHOUT.format("uvloop")], ids=["uvloop", "asyncio"])
def test_it_is_ready_answers_and_drains(tmp_path: Path, own_server: EmbeddedServer, program: str) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, program=program) as front:
        front.until_ready()
        with front.peer() as peer:
            unknown = peer.ask(4_711)
            assert (unknown.code, unknown.remark) == (3, " request type 4711 not supported")
            assert peer.ask(RequestCode.PUT_KV_CONFIG, KEY).code == ResponseCode.SUCCESS
            assert front.end() == 0
            assert peer.receive() is None
    assert "drained" in front.log()


def test_what_was_asked_before_the_end_is_answered(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, "--call-deadline", "60", "--drain", "60") as front:
        with front.peer() as peer:
            ask_slowly(front, peer, own_server)
            front.process.send_signal(signal.SIGTERM)
            front.until_said("draining")
            assert front.get("/readyz") == (503, "it is about to end\n")
            assert front.get("/healthz") == (200, "ok\n")
            address = front.address()
            wait_until(lambda: is_refused(address), description="no more connections are accepted")
            own_server.resume()
            answer = peer.receive()
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS
            assert peer.receive() is None
        assert front.process.wait(60.0) == 0


def test_a_load_balancer_has_time_to_notice_the_end(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, "--drain-wait", "600") as front:
        front.until_ready()
        front.process.send_signal(signal.SIGTERM)
        front.until_said("draining")
        assert front.get("/readyz")[0] == 503
        with front.peer() as late:
            assert late.ask(4_711).code == 3
        assert front.end() == 0
    assert " exiting without waiting for " in front.log()


def test_the_end_does_not_wait_for_a_store_that_hangs(tmp_path: Path, own_server: EmbeddedServer) -> None:
    patient = ("--call-deadline", "600", "--drain", "0.1")
    with FrontRun(tmp_path, "--redis", own_server.url, *patient) as front, front.peer() as peer:
        ask_slowly(front, peer, own_server)
        assert front.end() == 0
        assert peer.receive() is None
    own_server.resume()


THAT_HANGS = """
import threading
from sharedroutes.nameserver import command, front

command.CLOSING_S = 0.1
front.Front.answer = lambda *_: threading.Event().wait()
command.nameserver_command()
"""


def test_the_end_does_not_wait_for_an_event_loop_that_hangs(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, "--drain", "0.1", program=THAT_HANGS) as front:
        front.until_ready()
        with front.peer() as peer:
            peer.send(4_711)
            assert front.end() == 0
    assert "not ended within" in front.log()


THAT_FAILS = """
from sharedroutes.nameserver import command, front

async def follow(self):
    raise RuntimeError("on purpose")

front.Front._follow = follow
command.nameserver_command()
"""


def test_a_part_that_ends_unexpectedly_ends_it_with_1(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, program=THAT_FAILS) as front:
        assert front.process.wait(60.0) == 1
    assert "CRITICAL the front no longer follows the registry: RuntimeError('on purpose')" in front.log()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_without_a_store_it_has_one_of_its_own_and_says_so(tmp_path: Path, workers: str) -> None:
    with FrontRun(tmp_path, "--workers", workers, SHAREDROUTES_REDIS_URL="") as front:
        front.until_ready()
        assert "ALL ITS DATA END WITH THIS PROCESS" in front.log()
        with front.peer() as peer:
            assert peer.ask(RequestCode.PUT_KV_CONFIG, KEY).code == ResponseCode.SUCCESS
        assert front.end() == 0


def test_a_store_that_is_absent_at_first_is_waited_for(tmp_path: Path, own_server: EmbeddedServer) -> None:
    own_server.stop()
    with FrontRun(tmp_path, "--redis", own_server.url) as front:
        wait_until(lambda: "store" in front.get("/readyz")[1], timeout_s=60.0, description="it says why not")
        assert front.get("/readyz")[0] == 503
        own_server.start()
        front.until_ready()
        own_server.stop()
        assert front.end() == 0


def test_it_ends_while_it_waits_for_its_store(tmp_path: Path, own_server: EmbeddedServer) -> None:
    own_server.stop()
    with FrontRun(tmp_path, "--redis", own_server.url) as front:
        assert front.get("/readyz")[0] == 503
        assert front.end() == 0


@pytest.mark.parametrize("policy", ["refuse", "serve"])
def test_a_lost_store_makes_it_unready_if_it_then_refuses(
    tmp_path: Path, own_server: EmbeddedServer, policy: str
) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, "--when-stale", policy, "--stale", "0.5") as front:
        front.until_ready()
        own_server.stop()
        wait_until(
            lambda: front.state()["front"]["feed_age_s"] > 0.5, timeout_s=60.0, description="it is stale"
        )
        status, reason = front.get("/readyz")
        if policy == "refuse":
            assert (status, reason.startswith("it has not heard from the store for ")) == (503, True)
        else:
            assert (status, reason) == (200, "ok\n")
        assert front.end() == 0


def test_the_pages(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, "--namespace", "other") as front:
        front.until_ready()
        with front.peer() as peer:
            for _ in range(3):
                peer.ask(4_711)
            peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            families = {one.name: one for one in text_string_to_metric_families(front.get("/metrics")[1])}
            state = front.state()
        expected = {f"{PREFIX}{one.name.removesuffix('_total')}" for one in FAMILIES}
        assert {*families} == expected | {f"{PREFIX}info", f"{PREFIX}uptime_seconds"}
        requests = {one.labels["code"]: one.value for one in families[f"{PREFIX}requests"].samples}
        assert requests == {"other": 3, "206": 1}
        (connections,) = families[f"{PREFIX}connections"].samples
        assert connections.value == 1
        assert state["listen"] == "{}:{}".format(*front.address())
        assert state["store"] == {"url": own_server.url, "namespace": "other"}
        assert (state["ready"], state["reasons"]) == (True, [])
        assert state["numbers"]["requests_total"] == {"other": 3, "206": 1}
        assert front.get("/healthz") == (200, "ok\n")
        assert front.get("/metrics", "HEAD") == (200, "")
        assert front.get("/readyz", "POST")[0] == 405
        assert front.get("/elsewhere") == (
            404,
            "here are:\n/\n/events\n/healthz\n/readyz\n/status\n/metrics\n",
        )
        assert front.end() == 0


def test_without_the_extra_the_page_of_metrics_says_what_to_install(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    program = WITHOUT.format("prometheus_client")
    with FrontRun(tmp_path, "--redis", own_server.url, program=program) as front:
        status, body = front.get("/metrics")
        assert (status, body.startswith("/metrics needs prometheus_client: run `")) == (501, True)
        assert front.end() == 0


FEW_FILES = """
import resource
from sharedroutes.nameserver.command import nameserver_command

resource.setrlimit(resource.RLIMIT_NOFILE, (200, 266))
nameserver_command()
"""


@pytest.mark.parametrize(("chosen", "level"), [((), "INFO"), (("--max-connections", "11"), "WARNING")])
def test_no_more_connections_are_taken_than_files_may_be_open(
    tmp_path: Path, own_server: EmbeddedServer, chosen: tuple[str, ...], level: str
) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url, *chosen, program=FEW_FILES) as front:
        front.until_ready()
        assert f"{level} at most 10 connections, not " in front.log()
        with ExitStack() as stack:
            for _ in range(10):
                assert stack.enter_context(front.peer()).ask(4_711).code == 3
            with front.peer() as one_more:
                assert one_more.receive() is None
        assert front.end() == 0


def test_a_peer_may_ask_what_the_rules_allow(tmp_path: Path, own_server: EmbeddedServer) -> None:
    rules = ("--allow", "10.0.0.0/8=*", "--allow", "127.0.0.1=206")
    with FrontRun(tmp_path, "--redis", own_server.url, *rules) as front:
        front.until_ready()
        with front.peer() as peer:
            assert peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).code == ResponseCode.SUCCESS
            assert peer.ask(RequestCode.PUT_KV_CONFIG, KEY).code == ResponseCode.NO_PERMISSION
        with front.peer() as liar:  # nobody's PROXY header is believed
            liar.socket.sendall(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n")
            assert liar.receive() is None
        assert front.end() == 0


def test_a_peer_behind_a_proxy_is_named_by_its_header(tmp_path: Path, own_server: EmbeddedServer) -> None:
    rules = ("--allow", "10.0.0.0/8=*", "--proxy-from", "127.0.0.0/8")
    with FrontRun(tmp_path, "--redis", own_server.url, *rules) as front:
        front.until_ready()
        with front.peer() as peer:
            peer.socket.sendall(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n")
            assert peer.ask(RequestCode.PUT_KV_CONFIG, KEY).code == ResponseCode.SUCCESS
        with front.peer() as plain:
            assert plain.ask(RequestCode.PUT_KV_CONFIG, KEY).code == ResponseCode.NO_PERMISSION
        assert front.end() == 0


def test_a_hangup_reads_the_settings_anew(tmp_path: Path, own_server: EmbeddedServer) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("logFormat=text\n")
    with FrontRun(tmp_path, "--redis", own_server.url, "-c", str(config)) as front:
        front.until_ready()
        before = front.state()["front"]["switches"]
        config.write_text("logFormat=json\nserverChannelMaxIdleTimeSeconds=7\nenableTopicList=false\n")
        front.process.send_signal(signal.SIGHUP)
        front.until_said('"message":"reloaded"')
        assert front.state()["front"]["switches"] == {**before, "enableTopicList": "false"}
        said = [json.loads(line) for line in front.log().splitlines() if line.startswith("{")]
        changed = f"{config}:2: serverChannelMaxIdleTimeSeconds"
        assert f"reload: {changed} has changed: restart the front to apply it" in front.log()
        assert {line["level"] for line in said} == {"error", "info"}
        config.write_text("logFormat=loud\n")
        front.process.send_signal(signal.SIGHUP)
        front.until_said(f"reload: the settings are unchanged: {config}:1: logFormat: 'loud' is none of")
        assert front.end() == 0


def test_a_hangup_leaves_what_an_operator_has_changed(tmp_path: Path, own_server: EmbeddedServer) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("updateConfig=true\n")
    with FrontRun(tmp_path, "--redis", own_server.url, "-c", str(config)) as front, front.peer() as peer:
        assert peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true").code == 0
        config.write_text("updateConfig=true\norderMessageEnable=true\n")
        front.process.send_signal(signal.SIGHUP)
        front.until_said("reloaded")
        found = front.state()["front"]["switches"]
        assert (found["supportActingMaster"], found["orderMessageEnable"]) == ("true", "true")
        assert front.end() == 0


def test_a_hangup_renews_the_certificate(tmp_path: Path, own_server: EmbeddedServer) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    made = Certificates(tmp_path).make()
    files = ("--tls-cert", made.crt("server"), "--tls-key", made.key("server"), "--tls-mode", "enforcing")
    with FrontRun(tmp_path, "--redis", own_server.url, *files) as front:
        front.until_ready()

        def shown() -> str:
            return ssl.get_server_certificate(front.address(), timeout=10.0)

        assert shown() == Path(made.crt("server")).read_text()
        for ending in (".crt", ".key"):
            (tmp_path / f"client{ending}").replace(tmp_path / f"server{ending}")
        front.process.send_signal(signal.SIGHUP)
        front.until_said("the certificate was renewed")
        assert shown() == Path(made.crt("server")).read_text()
        with front.peer() as plain:
            plain.send(4_711)
            assert plain.receive() is None
        assert front.end() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_systemd_hears_of_the_start_of_progress_and_of_the_end(
    tmp_path: Path, own_server: EmbeddedServer, systemd: Systemd, workers: str
) -> None:
    environment = {"NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "200000"}
    heard: list[str] = []

    def is_told(text: str, times: int = 1) -> bool:
        heard.extend(systemd.heard())
        return heard.count(text) >= times

    with FrontRun(tmp_path, "--redis", own_server.url, "--workers", workers, **environment) as front:
        wait_until(lambda: is_told("READY=1"), timeout_s=60.0, description="it is ready")
        heard.clear()
        wait_until(lambda: is_told("WATCHDOG=1", 3), timeout_s=60.0, description="progress")
        front.process.send_signal(signal.SIGHUP)
        wait_until(lambda: is_told("READY=1"), timeout_s=60.0, description="the end of a reload")
        assert [one for one in heard if one.startswith("RELOADING=1\nMONOTONIC_USEC=")]
        assert front.end() == 0
    last = systemd.heard()
    assert [one for one in last if one.startswith("STOPPING=1\nEXTEND_TIMEOUT_USEC=")]
    assert "READY=1" not in last


def test_an_address_that_is_taken_ends_it_with_3(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag, said in (("--listen", "cannot listen at"), ("--http", "HTTP cannot be served at")):
            with FrontRun(tmp_path, "--redis", own_server.url, flag, address) as front:
                assert front.process.wait(60.0) == 3
            assert f"Error: {said} {address}: " in front.log()


def test_files_that_cannot_be_used_end_it_with_2(tmp_path: Path, own_server: EmbeddedServer) -> None:
    nowhere = str(tmp_path / "nowhere.pem")
    with FrontRun(tmp_path, "--redis", own_server.url, "--tls-cert", nowhere) as front:
        assert front.process.wait(60.0) == 2
    assert f"Error: TLS: {nowhere}" in front.log()


def test_it_is_a_command_of_sharedroutes(tmp_path: Path, own_server: EmbeddedServer) -> None:
    program = "import sys; sys.argv[1:1] = ['nameserver']; from sharedroutes.cli.main import main; main()"
    port = free_port()
    arguments = ("--redis", own_server.url, "--listen", f"127.0.0.1:{port}", "--http", "off")
    with FrontRun(tmp_path, *arguments, program=program) as front:
        assert front.address() == ("127.0.0.1", port)
        assert front.end() == 0
