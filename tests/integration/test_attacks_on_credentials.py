"""Tests of credentials in the evidence and in a model's answers."""

from __future__ import annotations

import pytest

from tests.integration.attack_runs import EVIL, answers_with, assert_repelled, record
from tests.integration.attacker import Attacker, answer

AWS = "AKIA" + "Q7XW3PLM5RTZ2NKB"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7Zf3kq9xWm2b\n-----END RSA PRIVATE KEY-----"
SECRETS = {"AWS": AWS, "GitHub": GITHUB, "a private key": KEY}


def core_of(secret: str) -> str:
    """Return the line of a credential that must not be visible anywhere."""
    lines = secret.splitlines()
    return lines[len(lines) // 2]


def all_bytes(attacker: Attacker) -> bytes:
    """Return the content of every file of the repository and of every git object."""
    project = attacker.project
    objects = project.git("cat-file", "--batch", "--batch-all-objects").encode(
        "utf-8", "surrogateescape"
    )
    files = (
        path.read_bytes()
        for path in project.path.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    return b"\n".join([objects, *files])


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_a_credential_in_the_evidence_is_neither_printed_nor_stored(
    attacker: Attacker, secret: str
) -> None:
    attacker.add_answer(answer("Use the key that was given", ("Use this", "[redacted:")))
    attacker.hold_session(f"Use this from now on: {secret} and never ask again for it.")
    ran = record(attacker)
    core = core_of(secret)
    assert core not in attacker.model_input + ran.printed + ran.written
    assert core.encode() not in all_bytes(attacker)
    assert "[redacted:" in attacker.model_input
    assert_repelled(attacker, ran, "quote-too-short")


@pytest.mark.parametrize(
    ("secret", "options"),
    [(AWS, ()), (GITHUB, ("--json",)), (KEY, ()), (KEY, ("--dry-run", "--json"))],
    ids=["AWS", "GitHub in JSON", "a private key", "a private key in JSON"],
)
def test_a_credential_that_a_model_makes_up_is_not_written_or_shown(
    attacker: Attacker, secret: str, options: tuple[str, ...]
) -> None:
    answers_with(
        title=f"Use {secret.splitlines()[0]}", body=f"The key of {EVIL} is {secret}", instead=secret
    )(attacker)
    ran = record(attacker, *options)
    core = core_of(secret)
    assert "credential" in ran.printed
    assert core not in ran.printed + ran.written
    assert core.encode() not in all_bytes(attacker)
