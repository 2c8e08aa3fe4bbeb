"""Tests of `init --clone` and its removal to the byte."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.hooks import HOOKS, name_previous_hook
from memory_ci.commands.setup.install import install, uninstall
from memory_ci.errors import RepositoryError
from memory_ci.memory.workspace import open_workspace
from memory_ci.records.config import ScopePatterns
from memory_ci.sessions.served_ids import record_served
from memory_ci.store.merge_driver import attribute_lines, driver_command
from tests.make import make_id
from tests.project import NOW, Project

pytestmark = pytest.mark.usefixtures("background")  # a run of a hook writes into the repository

HOOK = HOOKS[0]
PARTS = 2 + len(HOOKS)
"""The driver, the attributes and the hooks."""

REFUSING = "#!/bin/sh\necho no >&2\nexit 7\n"


def results(project: Project, *, with_hooks: bool = True, dry_run: bool = False) -> list[str]:
    steps = install(project.workspace, sys.executable, with_hooks=with_hooks, dry_run=dry_run)
    return [step.result for step in steps]


def removed(project: Project, **options: bool) -> list[str]:
    return [step.result for step in uninstall(project.workspace, **options)]


def snapshot(project: Project) -> dict[str, tuple[bytes, int]]:
    """Return bytes and mode of all files that `init --clone` may write."""
    places = [project.path / ".gitattributes", project.path / ".git" / "config"]
    places += (project.path / ".git" / "hooks").glob("*")
    return {str(path): (path.read_bytes(), path.stat().st_mode) for path in places if path.exists()}


def put_hook(project: Project, text: str, mode: int = 0o755, name: str = HOOK) -> Path:
    hook = project.write(f".git/hooks/{name}", text)
    hook.chmod(mode)
    return hook


def test_installing_again_changes_nothing(project: Project) -> None:
    assert results(project) == ["written"] * PARTS
    before = snapshot(project)
    assert results(project) == ["kept"] * PARTS
    assert snapshot(project) == before


def test_a_dry_run_lists_changes_and_writes_nothing(project: Project) -> None:
    put_hook(project, REFUSING)
    before = snapshot(project)
    assert results(project, dry_run=True) == ["written"] * PARTS
    assert snapshot(project) == before
    install(project.workspace, sys.executable)
    after = snapshot(project)
    assert removed(project, dry_run=True) == ["removed"] * PARTS
    assert snapshot(project) == after


@pytest.mark.parametrize(
    "attributes", [None, "*.png binary\n", "*.png binary", "*.png binary\r\n", "\n"]
)
@pytest.mark.parametrize("hook", [None, REFUSING])
def test_uninstalling_leaves_every_byte_as_it_was(
    project: Project, attributes: str | None, hook: str | None
) -> None:
    if attributes is not None:
        project.write(".gitattributes", attributes)
    if hook is not None:
        put_hook(project, hook, 0o744)
    before = snapshot(project)
    install(project.workspace, sys.executable)
    assert snapshot(project) != before
    assert removed(project) == ["removed"] * PARTS
    assert snapshot(project) == before
    assert removed(project) == ["absent"] * PARTS


MINE = "echo MINE >/dev/null\n"


def edit(project: Project, name: str = HOOK) -> str:
    """Add a line of the user to our hook, and return the text that must not be lost."""
    hook = project.path / ".git/hooks" / name
    text = hook.read_text() + MINE
    hook.write_text(text)
    return text


def test_a_user_s_line_in_our_hook_survives_another_install(
    project: Project,
) -> None:
    install(project.workspace, sys.executable)
    before = snapshot(project)
    text = edit(project)
    steps = [
        step
        for step in install(project.workspace, sys.executable, dry_run=True)
        if step.result != "kept"
    ]
    assert [step.result for step in steps] == ["renamed", "written"]
    assert (project.path / ".git/hooks" / HOOK).read_text() == text
    assert [s for s in install(project.workspace, sys.executable) if s.result != "kept"] == steps
    aside = project.path / f".git/hooks/{HOOK}.memory-ci-edited"
    assert (steps[0].path, aside.read_text()) == (str(aside), text)
    aside.rename(aside.with_name("elsewhere"))
    (project.path / ".git/hooks/elsewhere").unlink()
    assert snapshot(project) == before


def test_a_user_s_line_in_our_hook_survives_the_removal(
    project: Project,
) -> None:
    put_hook(project, REFUSING)
    for number in ("", "-2"):
        install(project.workspace, sys.executable)
        text = edit(project)
        assert "renamed" in removed(project)
        assert (project.path / f".git/hooks/{HOOK}.memory-ci-edited{number}").read_text() == text
        assert (project.path / ".git/hooks" / HOOK).read_text() == REFUSING


def test_another_interpreter_is_no_change_of_a_user(project: Project) -> None:
    install(project.workspace, "/opt/it's/python")
    hook = project.path / ".git/hooks" / HOOK
    hook.write_text(hook.read_text().replace(shlex.quote("/opt/it's/python"), "/opt/moved/python"))
    assert results(project) == ["written", "kept", *["written"] * len(HOOKS)]


OLD = {
    "post-commit": """\
#!/bin/sh
# Written by `memory-ci install`; `memory-ci uninstall` takes it out.
previous="${0%/*}/post-commit.memory-ci-previous"
if [ -x "$previous" ]; then "$previous" "$@" || exit $?; fi
# memory-ci: bring the index up to what git just did, in the background, if memory changed. @@
[ -n "$CI" ] && exit 0
(
  kept="$(git rev-parse --git-common-dir)/memory-ci"
  set --
  { read -r commit; while IFS= read -r spec; do set -- "$@" "$spec"; done; } <"$kept/warmed" &&
    [ -f "$kept/index.db" ] && git diff-tree -r --quiet "$commit" HEAD -- "$@" && exit
  command -v /opt/python && exec /opt/python -P -m memory_ci hook sync --detached
) </dev/null >/dev/null 2>&1 &
exit 0
""".replace("@@", "It says nothing, never fails."),
    "prepare-commit-msg": """\
#!/bin/sh
# Written by `memory-ci install`; `memory-ci uninstall` takes it out.
previous="$(dirname "$0")/prepare-commit-msg.memory-ci-previous"
if [ -x "$previous" ]; then "$previous" "$@" || exit $?; fi
# memory-ci: note in the commit message which entries this work was given. It never stands in the way of a commit.
command -v /opt/python >/dev/null 2>&1 && /opt/python -P -m memory_ci hook prepare-commit-msg "$@"
exit 0
""",
}


@pytest.mark.parametrize("name", OLD)
def test_a_hook_of_an_older_version_is_renewed_and_an_edited_one_is_kept(
    project: Project, name: str
) -> None:
    install(project.workspace, sys.executable)
    new = (project.path / ".git/hooks" / name).read_text()
    put_hook(project, OLD[name], name=name)
    assert sorted(results(project)) == ["kept"] * (PARTS - 1) + ["written"]
    assert (project.path / ".git/hooks" / name).read_text() == new
    put_hook(project, OLD[name] + MINE, name=name)
    assert results(project).count("renamed") == 1


def test_a_hook_that_was_put_aside_comes_back_though_ours_was_deleted(project: Project) -> None:
    put_hook(project, REFUSING, 0o744)
    before = snapshot(project)
    install(project.workspace, sys.executable)
    (project.path / ".git/hooks" / HOOK).unlink()
    assert "restored" in removed(project, dry_run=True)
    assert "restored" in removed(project)
    assert snapshot(project) == before


def test_a_deleted_hook_of_ours_is_restored_before_the_hook_moved_aside(
    project: Project,
) -> None:
    put_hook(project, REFUSING)
    install(project.workspace, sys.executable)
    before = snapshot(project)
    (project.path / ".git/hooks" / HOOK).unlink()
    install(project.workspace, sys.executable)
    assert snapshot(project) == before


@pytest.mark.parametrize("is_again", [False, True])
def test_ours_beside_a_tool_that_is_gone_is_found(project: Project, is_again: bool) -> None:
    before = snapshot(project)
    theirs = put_hook(project, GENERATED.format("pre-commit"))
    install(project.workspace, sys.executable)
    theirs.unlink()
    if is_again:
        assert results(project).count("written") == 1
        assert not theirs.with_name(f"{HOOK}.legacy").exists()
    assert removed(project) == ["removed"] * PARTS
    assert snapshot(project) == before


def test_lines_written_around_our_block_stay_lines(project: Project) -> None:
    attributes = project.write(".gitattributes", "*.png binary")
    install(project.workspace, sys.executable)
    attributes.write_text(attributes.read_text() + "*.jpg binary\n")
    assert results(project) == ["kept"] * PARTS
    uninstall(project.workspace)
    assert attributes.read_text() == "*.png binary\n*.jpg binary\n"


def test_a_block_for_other_scopes_is_updated_in_place(project: Project) -> None:
    install(project.workspace, sys.executable)
    attributes = project.path / ".gitattributes"
    attributes.write_text(attributes.read_text() + "*.jpg binary\n")
    project.write(".memory-ci.yaml", "scopes:\n  project: [NOTES.md]\n")
    assert results(project) == ["kept", "written", *["kept"] * len(HOOKS)]
    assert attributes.read_text().count("memory-ci: begin") == 1
    assert "/NOTES.md merge=memory-ci\n" in attributes.read_text()
    assert attributes.read_text().endswith("\n*.jpg binary\n")


def test_a_block_from_before_episodes_were_merged_is_renewed(project: Project) -> None:
    install(project.workspace, sys.executable)
    attributes = project.path / ".gitattributes"
    text = attributes.read_text()
    attributes.write_text(text.replace("/.memory/episodes/*/*.md merge=memory-ci\n", ""))
    assert results(project) == ["kept", "written", *["kept"] * len(HOOKS)]
    assert attributes.read_text() == text


def test_every_memory_file_gets_the_driver_and_no_other_file(project: Project) -> None:
    install(project.workspace, sys.executable)
    memory = [
        "MEMORY.md",
        "institutional.md",
        "src/MEMORY.md",
        "a/b/c/MEMORY.md",
        ".teaparty/jobs/j1/institutional.md",
        ".teaparty/jobs/j1/tasks/t/worktree/MEMORY.md",
        ".memory/inbox/x.md",
        ".memory/episodes/2026-11/j.md",
        ".memory/episodes/2026-11/_all.md",
    ]
    others = ["README.md", "docs/institutional.md", ".memory/episodes/j.md", "MEMORY.md.txt"]
    answers = project.git("check-attr", "merge", "--", *memory, *others).splitlines()
    assert [line.rpartition(": ")[2] for line in answers] == ["memory-ci"] * len(memory) + [
        "unspecified"
    ] * len(others)


def test_a_pattern_with_blanks_or_brackets_is_written_as_git_reads_it(project: Project) -> None:
    lines = attribute_lines(ScopePatterns(project=("my notes/[x]/M?.md",)))
    project.write(".gitattributes", "\n".join(lines))
    paths = ["my notes/[x]/M?.md", "my notes/x/Mx.md"]
    answers = project.git("check-attr", "-z", "merge", "--", *paths).split("\0")
    assert answers[2::3] == ["memory-ci", "unspecified"]


def test_a_hook_that_was_there_runs_first_and_can_still_refuse(project: Project) -> None:
    put_hook(project, '#!/bin/sh\necho first >>"$1"\n')
    install(project.workspace, sys.executable)
    record_served(project.workspace, [make_id(1)], NOW)
    project.commit("Do it", {"x.txt": "x"})
    message = project.git("log", "-1", "--format=%B")
    assert "first" in message
    assert make_id(1) in message
    (project.path / ".git" / "hooks" / name_previous_hook(HOOK)).write_text(REFUSING)
    with pytest.raises(AssertionError, match="no"):
        project.commit("Refused")


def test_a_hook_that_git_would_not_run_is_not_run_by_us(project: Project) -> None:
    put_hook(project, REFUSING, 0o644)
    install(project.workspace, sys.executable)
    project.commit("Go on")
    previous = project.path / ".git/hooks" / name_previous_hook(HOOK)
    assert (previous.read_text(), previous.stat().st_mode & 0o777) == (REFUSING, 0o644)


def test_an_interpreter_that_is_gone_does_not_stand_in_the_way_of_a_commit(
    project: Project,
) -> None:
    install(project.workspace, "/nowhere/bin/python")
    project.commit("Go on")
    assert "/nowhere/bin/python" in (project.path / ".git/hooks" / HOOK).read_text(), (
        "it was there and did not run"
    )
    assert project.git("log", "-1", "--format=%s").strip() == "Go on"


def test_hooks_kept_elsewhere_are_refused_before_anything_is_written(project: Project) -> None:
    project.git("config", "core.hooksPath", ".githooks")
    before = snapshot(project)
    with pytest.raises(RepositoryError) as caught:
        install(project.workspace, sys.executable)
    assert caught.value.slug == "hooks-path-set"
    assert "--without hooks" in caught.value.hint
    assert (
        "post-merge: ! command -v memory-ci >/dev/null || memory-ci hook sync" in caught.value.hint
    )
    assert snapshot(project) == before
    assert results(project, with_hooks=False) == ["written"] * 2


def test_a_directory_of_hooks_that_lies_elsewhere_is_refused(project: Project) -> None:
    hooks = project.path / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)  # there is none
    (project.path / "scripts").mkdir()
    hooks.symlink_to("../scripts")
    with pytest.raises(RepositoryError, match="symbolic link"):
        install(project.workspace, sys.executable)
    assert list((project.path / "scripts").iterdir()) == []


def test_a_link_that_leads_nowhere_is_put_back(project: Project) -> None:
    hook = project.path / ".git" / "hooks" / "post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to("../../gone")
    assert results(project) == ["written"] * PARTS
    assert not hook.is_symlink()
    assert removed(project) == ["removed"] * PARTS
    assert hook.readlink() == Path("../../gone")


GENERATED = '#!/bin/sh\n# File generated by {}: https://example.com\n"$0.legacy" "$@"\n'


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
@pytest.mark.parametrize("old", [None, "#!/bin/sh\n# of old\n"])
def test_beside_a_tool_that_runs_a_hook_from_aside_ours_is_put_there(
    project: Project, tool: str, old: str | None
) -> None:
    theirs = put_hook(project, GENERATED.format(tool))
    if old is not None:
        put_hook(project, old, name=f"{HOOK}.legacy")
    before = snapshot(project)
    assert results(project) == ["written"] * PARTS
    assert theirs.read_text() == GENERATED.format(tool)
    record_served(project.workspace, [make_id(1)], NOW)
    project.commit("Do it", {"x.txt": "x"})
    assert make_id(1) in project.git("log", "-1", "--format=%B")
    assert results(project) == ["kept"] * PARTS
    removed(project)
    assert snapshot(project) == before


@pytest.mark.parametrize("is_aside", [False, True])
def test_hooks_that_the_manager_runs_already_are_left_to_it(
    project: Project, is_aside: bool
) -> None:
    old = "#!/bin/sh\n# of old\n"
    put_hook(project, old)
    if is_aside:  # from an earlier installation
        install(project.workspace, sys.executable)
        (project.path / f".git/hooks/{HOOK}").rename(project.path / f".git/hooks/{HOOK}.legacy")
    put_hook(project, GENERATED.format("pre-commit"))
    project.write(
        ".pre-commit-config.yaml",
        "repos:\n- hooks:\n  - id: memory-ci-trailers\n  - id: memory-ci-check\n",
    )
    steps = {
        Path(step.path).name: step.result for step in install(project.workspace, sys.executable)
    }
    assert steps[HOOK] == ("removed" if is_aside else "kept")
    assert (project.path / ".git/hooks/pre-commit").exists(), (
        "what is checked there is not what our hook does"
    )
    aside = project.path / f".git/hooks/{HOOK}.legacy"
    assert [path.read_text() for path in [aside] if path.exists()] == [old] * is_aside
    assert results(project) == ["kept"] * PARTS


def test_ours_that_was_put_aside_later_is_kept_there(project: Project) -> None:
    put_hook(project, "#!/bin/sh\n# of old\n")
    before = snapshot(project)
    install(project.workspace, sys.executable)
    aside = project.path / f".git/hooks/{HOOK}.legacy"
    (project.path / f".git/hooks/{HOOK}").rename(aside)
    theirs = put_hook(project, GENERATED.format("prek"))
    assert results(project) == ["kept"] * PARTS
    removed(project)
    aside.rename(theirs)  # as `prek uninstall` does it
    assert snapshot(project) == before


def test_two_hooks_that_are_not_ours_are_not_sorted_out_for_anyone(project: Project) -> None:
    put_hook(project, REFUSING)
    install(project.workspace, sys.executable)
    put_hook(project, "#!/bin/sh\n# another tool\n")
    with pytest.raises(RepositoryError) as caught:
        install(project.workspace, sys.executable)
    assert caught.value.slug == "hook-in-the-way"


def test_a_linked_work_tree_installs_for_the_whole_clone(project: Project, tmp_path: Path) -> None:
    linked = project.worktree(tmp_path / "linked", "side")
    install(open_workspace(linked.path), sys.executable)
    assert (project.path / ".git" / "hooks" / HOOK).exists()
    assert project.git("config", "--get", "merge.memory-ci.driver") == driver_command(
        sys.executable
    )


def test_a_bare_repository_is_refused(project: Project, tmp_path: Path) -> None:
    bare = project.bare(tmp_path / "bare.git")
    with pytest.raises(RepositoryError, match="no work tree"):
        install(open_workspace(bare.path, is_named=True), sys.executable)


def test_a_strange_path_of_the_interpreter_is_quoted_for_shell_and_git() -> None:
    assert driver_command("/opt/my %py/it's/python").startswith(
        "if '/opt/my %%py/it'\"'\"'s/python' -P -c "
    )


def test_a_damaged_list_of_created_files_does_not_stop_the_removal(project: Project) -> None:
    install(project.workspace, sys.executable, agents=("claude-code",))
    note = project.path / ".git" / "memory-ci" / "made"
    note.write_bytes(note.read_bytes() + bytes(range(128, 256)) + b"\n")
    uninstall(project.workspace)
    assert "memory_ci" not in project.git("config", "--local", "--list")
