"""Tests of hostile addresses in policies, in lists of an organisation's repositories, and in remotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.config import CONFIG_FILE
from tests.attacks.attack import (
    BOUNDED,
    COMMAND,
    ERROR,
    SECRET,
    Area,
    Case,
    Launcher,
    assert_ended_clearly,
    log_git,
)
from tests.attacks.scene import FIXED_TIME
from tests.project import Project, copy_project, make_project
from tests.test_credentials import KEYS, make

pytestmark = pytest.mark.slow

AREA = Area(
    "addresses of a policy, an organisation, a remote",
    "`ext::`, `fd::`, unknown transports, `--upload-pack=`, `-oProxyCommand`, shell words, credentials, control "
    "characters and 100,000 letters as `extends:`, as the argument of `policy`, in the list of `org sync`, as a remote",
    "only file, git, http, https and ssh may be used; no address is an option; credentials are refused or masked",
)

TOKEN = make(next(pair[1] for pair in KEYS if pair[0] == "github"))
CANARY = "{canary}"
ADDRESSES = {
    "ext": f"ext::sh -c touch% {CANARY}",
    "ext in capitals": f"EXT::sh -c touch% {CANARY}",
    "ext without a blank": f"ext::touch%20{CANARY}",
    "fd": "fd::17/foo",
    "an unknown transport": "sh::touch",
    "an option": f"--upload-pack=touch {CANARY};",
    "an option without blanks": f"--upload-pack=touch${{IFS}}{CANARY}",
    "an option of git": f"-ccore.sshCommand=touch${{IFS}}{CANARY}",
    "a host that is an option": f"ssh://-oProxyCommand=touch${{IFS}}{CANARY}/x",
    "a host that is an option, as scp": f"-oProxyCommand=touch${{IFS}}{CANARY}:x",
    "a user that is an option": f"ssh://-oProxyCommand=touch${{IFS}}{CANARY}@127.0.0.1/x",
    "a port that is an option": f"ssh://127.0.0.1:-oProxyCommand=touch${{IFS}}{CANARY}/x",
    "a command in a path": f"ssh://127.0.0.1:9/$(touch${{IFS}}{CANARY})",
    "a command": f"$(touch${{IFS}}{CANARY})",
    "a command after a semicolon": f"x;touch${{IFS}}{CANARY}",
    "a command in back quotes": f"`touch${{IFS}}{CANARY}`",
    "a file that is no repository": "/etc/passwd",
    "a file address": "file:///etc/passwd",
    "a path out of the repository": "../../../../../../etc",
    "a credential in an address": f"https://x:{TOKEN}@127.0.0.1:9/x",
    "a credential as the user": f"https://{TOKEN}@127.0.0.1:9/x",
    "control characters": "https://127.0.0.1:9/\x1b[2J\x07x",
    "a line of its own": "https://127.0.0.1:9/x\n::set-output name=a::b",
    "bidi": "https://127.0.0.1:9/\u202ex",
    "100,000 letters": "https://127.0.0.1:9/" + "x" * 100_000,
}
HOLDS = (COMMAND, SECRET, ERROR, BOUNDED)
CASES = {
    name: Case(name, f"the address is {name}", HOLDS, address)
    for name, address in ADDRESSES.items()
}
ALL_CASES = CASES
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("addresses") / "shop")


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_address_runs_no_command_and_leaks_nothing(
    case: str, template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    address = CASES[case].data.replace(CANARY, str(canary))
    env = {**FIXED_TIME, **log_git(tmp_path), "GITHUB_ACTIONS": "true", "GIT_SSH_COMMAND": "false"}

    def run(project: Project, *words: str) -> None:
        result = launcher.run(project.path, *words, env=env)
        assert_ended_clearly(result, words)
        assert not canary.exists(), words
        assert TOKEN not in result.printed, words
        assert "\x1b" not in result.printed, words
        assert "\u202e" not in result.printed, words
        assert not any(line.startswith("::set-output") for line in result.printed.splitlines()), (
            words
        )

    named = copy_project(template, tmp_path / "named")
    run(named, "policy", f"{address}@v1")
    if TOKEN in address:
        assert TOKEN not in (named.path / CONFIG_FILE).read_text()
        assert TOKEN not in (tmp_path / "argv").read_text()
    extended = copy_project(template, tmp_path / "extended")
    quoted = address.encode("unicode_escape").decode().replace('"', '\\"')
    extended.commit("Extend", {CONFIG_FILE: f'extends: "{quoted}@v1 {DIGEST}"\n'})
    for command in ("policy", "policy --check", "check", "record --yes", "doctor"):
        run(extended, *command.split())
    listed = copy_project(template, tmp_path / "listed")
    (tmp_path / "list.txt").write_text(f"{address}\n")
    run(listed, "org", "sync", str(tmp_path / "list.txt"), "--out", str(tmp_path / "index"))
    run(listed, "org", "plan", str(tmp_path / "list.txt"))
    remote = copy_project(template, tmp_path / "remote")
    remote.git("config", "remote.origin.url", address)
    remote.git("config", "protocol.ext.allow", "always")
    for command in ("record --push push", "candidates --fetch", "doctor", "report --json"):
        run(remote, *command.split())
