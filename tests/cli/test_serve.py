"""What `sayso serve` refuses to begin with, each in one sentence."""

import socket
from pathlib import Path

import pytest
from tests.cli.questions import sayso


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "hub.example"])  # noqa: S104 - that is what is refused
def test_an_address_that_others_can_reach_needs_https_or_a_word(host: str) -> None:
    done = sayso("serve", "--host", host)
    assert done.exit_code == 2
    assert "so tokens would travel in the open" in " ".join(done.stderr.split())
    assert not Path("state.db").exists()


def test_a_certificate_needs_its_key() -> None:
    assert sayso("serve", "--tls-cert", "x.pem").exit_code == 2


def test_a_port_that_is_taken_is_told_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = sayso("serve", "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 1
    assert "cannot be served: Address already in use; choose another with --port" in done.stderr
    assert not Path("state.db").exists()


def test_a_certificate_that_is_none_is_told_in_one_sentence() -> None:
    Path("x.pem").write_text("nothing", encoding="utf-8")
    done = sayso("serve", "--port", "0", "--tls-cert", "x.pem", "--tls-key", "x.pem")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: the certificate x.pem or its key cannot be used")


def test_a_policy_with_mistakes_and_a_file_that_is_no_store_are_told() -> None:
    Path("bad.yaml").write_text("version: 1\nnothing: 1\n", encoding="utf-8")
    done = sayso("serve", "--port", "0", "--policy", "bad.yaml")
    assert (done.exit_code, "bad.yaml:2" in done.stderr) == (1, True)
    Path("no.db").write_text("nothing", encoding="utf-8")
    done = sayso("serve", "--port", "0", "--store", "no.db")
    assert (done.exit_code, "no.db is damaged or not a SQLite file" in done.stderr) == (1, True)


def test_every_mistake_of_a_notices_file_is_on_a_line_of_its_own() -> None:
    Path("notices.yaml").write_text("people:\n- name: ann\n  rols: [ops]\nwebhook: []\n", encoding="utf-8")
    done = sayso("serve", "--port", "0", "--notify", "notices.yaml")
    lines = done.stderr.splitlines()
    assert done.exit_code == 1
    assert {line.split(": ")[0] for line in lines} == {f"notices.yaml:{at}" for at in ("2:3", "3:3", "4:1")}
