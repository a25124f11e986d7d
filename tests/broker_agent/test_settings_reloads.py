"""What a reload does with the settings, and brokers whose broker.conf cannot be read yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sharedroutes.broker_agent.settings.loader import settings_of
from sharedroutes.broker_agent.settings.reload import changes, looked_again
from sharedroutes.broker_agent.settings.sidecar_config import BrokerSettings, SidecarConfig
from sharedroutes.broker_agent.settings.text import as_toml
from sharedroutes.registry import InvalidInput
from tests.broker_agent.settings_site import CONF, A, B, loaded, write_brokers


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the broker.conf of the brokers a and b."""
    return write_brokers(tmp_path)


def test_a_broker_conf_that_cannot_be_read_is_awaited(site: Path) -> None:
    config = loaded(site, f'{A}[[broker]]\nbroker_conf = "later.conf"\nhang_check_s = 7\n')
    assert [agent.broker.broker_name for agent in config.agents] == ["broker-a"]
    (awaited,) = config.awaited
    assert awaited.path == site / "later.conf"
    assert awaited.why == f"{site}/later.conf: cannot be read: No such file or directory"
    assert f"# {awaited.why}\n" in as_toml(config)
    (site / "later.conf").write_text(CONF.format(name="later", port=1))
    read = settings_of(awaited.values, config.redis_url, config.registry)
    assert isinstance(read, BrokerSettings)
    assert (read.config.broker.broker_name, read.config.hang_check_s) == ("broker-later", 7.0)


def looked(config: SidecarConfig) -> BrokerSettings | str:
    """Look at the awaited broker again; return its settings, or why it is awaited still."""
    (awaited,) = config.awaited
    found = looked_again(awaited, config)
    return found if isinstance(found, BrokerSettings) else found.why


def test_a_broker_whose_file_has_come_can_be_started(site: Path) -> None:
    (site / "b.conf").rename(site / "hidden")
    config = loaded(site, A + B)
    assert looked(config) == f"{site}/b.conf: cannot be read: No such file or directory"
    (site / "hidden").rename(site / "b.conf")
    found = looked(config)
    assert isinstance(found, BrokerSettings)
    assert found.config.broker.broker_name == "broker-b"


def test_a_file_that_has_come_and_is_wrong_is_waited_for(site: Path) -> None:
    (site / "b.conf").unlink()
    config = loaded(site, A + B)
    for content, why in (
        ("brokerPermission=9\n", ":1: brokerPermission: "),
        (CONF.format(name="a", port=1), ": is b"),
    ):
        (site / "b.conf").write_text(content)
        assert why in str(looked(config))
    (site / "b.conf").write_text(CONF.format(name="b", port=1))
    assert isinstance(looked(config), BrokerSettings)


def test_a_reload_waits_for_what_is_new_and_cannot_be_read_and_leaves_what_runs(site: Path) -> None:
    old = loaded(site, A)
    (site / "a.conf").unlink()
    found = changes(old, loaded(site, f'{A}[[broker]]\nbroker_conf = "later.conf"\n'))
    assert (found.new, found.gone, found.config.brokers) == ((), frozenset(), old.brokers)
    assert [one.path for one in found.config.awaited] == [site / "later.conf"]
    (problem,) = found.need_restart
    assert problem.startswith(
        f"{site}/a.conf: cannot be read: No such file or directory: its agent continues"
    )
    (site / "later.conf").write_text(CONF.format(name="later", port=1))
    again = changes(found.config, loaded(site, '[[broker]]\nbroker_conf = "later.conf"\n'))
    assert [agent.broker.broker_name for agent in again.new] == ["broker-later"]
    assert again.gone == {site / "a.conf"}
    assert again.config.awaited == ()


def test_a_new_broker_that_does_not_fit_the_store_as_it_was_is_named(site: Path) -> None:
    slow = f"[store]\nlease_ttl_s = 60\n{A}{B}heartbeat_s = 20\n"
    with pytest.raises(InvalidInput, match=rf"^{site}/b.conf: lease_ttl_s: 15.0 is less than twice heartb"):
        changes(loaded(site, A), loaded(site, slow))


def test_an_awaited_broker_that_does_not_fit_the_store_as_it_was_is_waited_for(site: Path) -> None:
    (site / "b.conf").rename(site / "hidden")
    slow = loaded(site, f"[store]\nlease_ttl_s = 60\n{A}{B}heartbeat_s = 20\n")
    config = changes(loaded(site, A), slow).config
    (site / "hidden").rename(site / "b.conf")
    assert str(looked(config)).startswith(f"{site}/b.conf: lease_ttl_s: 15.0 is less than twice heartbeat_s")


def test_why_a_broker_is_awaited_outlives_a_reload(site: Path) -> None:
    (site / "b.conf").unlink()
    config = loaded(site, A + B)
    config = replace(config, awaited=(replace(config.awaited[0], why="another reason"),))
    assert changes(config, loaded(site, A + B)).config.awaited[0].why == "another reason"


def test_a_broker_that_a_reload_brings_uses_the_store_as_it_was(site: Path) -> None:
    old = loaded(site, A)
    found = changes(old, loaded(site, f"[store]\nurl = 'redis://other'\nlease_ttl_s = 60\n{A}{B}"))
    (new,) = found.new
    assert (new.registry, new.redis_url) == (old.registry, old.redis_url)
    quick = changes(old, loaded(site, f"{A}{B}heartbeat_s = 0.5\n"))
    assert (quick.new[0].registry, quick.need_restart) == (old.registry, ())
    assert found.config.agents == (*old.agents, new)


def test_a_reload_applies_the_log_and_new_and_lost_brokers(site: Path) -> None:
    old = loaded(site, '[[broker]]\nbroker_conf = "a.conf"\n')
    new = loaded(
        site, '[agent]\nlog_format = "json"\nlog_level = "debug"\n[[broker]]\nbroker_conf = "b.conf"\n'
    )
    found = changes(old, new)
    assert [agent.broker.broker_name for agent in found.new] == ["broker-b"]
    assert found.gone == {site / "a.conf"}
    assert found.need_restart == ()
    assert (found.config.value("log_format"), found.config.value("log_level")) == ("json", "debug")
    assert found.config.agents == new.agents


def test_a_reload_names_what_needs_a_restart_and_leaves_it(site: Path) -> None:
    old = loaded(site, A + B)
    new = loaded(
        site, '[store]\nnamespace = "other"\n[agent]\nheartbeat_s = 4\n' + A + B + "hang_check_s = 3\n"
    )
    found = changes(old, new)
    sentences = [text.replace(f"{site}/", "") for text in found.need_restart]
    assert [text.removesuffix(" has changed: restart the agent to apply it") for text in sentences] == [
        "namespace (agent.toml: store.namespace)",
        "heartbeat_s (agent.toml: agent.heartbeat_s) of a.conf",
        "heartbeat_s (agent.toml: agent.heartbeat_s) of b.conf",
        "hang_check_s (agent.toml: broker[2].hang_check_s) of b.conf",
    ]
    assert found.config == old


def test_a_reload_of_the_same_does_nothing_also_when_a_broker_conf_has_changed(site: Path) -> None:
    old = loaded(site, A + B)
    (site / "a.conf").write_text(CONF.format(name="a", port=10911) + "brokerPermission=4\n")
    found = changes(old, loaded(site, A + B))
    assert (found.new, found.gone, found.need_restart) == ((), frozenset(), ())
