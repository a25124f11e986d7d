"""Files that the pages show are those of deploy/, or are read by what they are for."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.cli.pipeline.group import pipeline
from tests.broker_agent.data_files import broker_conf
from tests.cluster.certificates import Certificates
from tests.deploy.files import AGENT, DEPLOY, run, tool
from tests.deploy.test_agent_deploy import checked
from tests.pages.blocks import Block, blocks_of

DEPLOYED: Final = {
    path.read_text(encoding="utf-8") for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".png"
}
OTHERS: Final = {
    block.place: block
    for page in blocks_of(__file__).values()
    for block in page
    if block.text not in DEPLOYED
}
PAGES: Final = {
    "docs/agent/systemd.md": "drop_in",
    "docs/agent/users-and-tls.md": "agent_toml",
    "docs/pipeline/cluster.md": "unit",
}
"""What the block of a page is that is no file of deploy/."""


def block_of(kind: str) -> str:
    (block,) = [one.text for one in OTHERS.values() if PAGES.get(one.page) == kind]
    return block


def verify(folder: Path, name: str, **files: str) -> None:
    """Have systemd look at a unit, which names a program that is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs Debian's systemd")
    for file, text in files.items():
        path = folder / file.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("/opt/sharedroutes/bin/sharedroutes", tool("sharedroutes")))
    done = run("systemd-analyze", "verify", str(folder / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("block", OTHERS.values(), ids=OTHERS)
def test_what_is_no_file_of_deploy_is_checked_here(block: Block) -> None:
    assert block.page in PAGES


def test_systemd_takes_the_drop_in_of_the_agent(tmp_path: Path) -> None:
    text, unit = block_of("drop_in"), AGENT.unit.name
    verify(tmp_path, unit, **{unit: AGENT.unit.read_text(encoding="utf-8"), f"{unit}.d__broker.conf": text})
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert settings["Environment"] == f"BROKER_UNIT={settings['Before']}"
    assert settings.keys() <= dict(AGENT.unit_settings()).keys()


def test_systemd_takes_the_unit_of_the_ingest_and_so_does_the_ingest(tmp_path: Path) -> None:
    text = block_of("unit")
    verify(tmp_path, "ingest.service", **{"ingest.service": text})
    (words,) = re.findall(r"^ExecStart=\S+ pipeline ingest (.*)$", text, re.MULTILINE)
    made = pipeline.commands["ingest"].make_context("ingest", words.split())
    assert made.params["out"] == "/var/lib/sharedroutes/history"


def test_the_agent_takes_its_settings_for_users_and_tls(tmp_path: Path) -> None:
    text = block_of("agent_toml")
    (broker,) = tomllib.loads(text)["broker"]
    assert broker["broker_tls"] == "verify-full"
    files = {
        "/etc/sharedroutes/agent.toml": text,
        "/etc/rocketmq/broker.conf": broker_conf("broker-a", 10911, tmp_path),
        "/etc/sharedroutes/broker-a.yml": "accessKey: sharedroutes\nsecretKey: the-secret-of-this-user\n",
    }
    certificates = Certificates(tmp_path).make()
    for name, path in (("ca.pem", certificates.crt("ca")), ("agent.pem", certificates.crt("client"))):
        files[f"/etc/sharedroutes/{name}"] = Path(path).read_text()
    files["/etc/sharedroutes/agent.key"] = Path(certificates.key("client")).read_text()
    words = ("sharedroutes", "agent", "--config", "/etc/sharedroutes/agent.toml")
    assert "1 broker" in checked(words, tmp_path, files)
