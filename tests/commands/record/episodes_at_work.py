"""Helpers: a project with two known entries, and the content of its episodes."""

from __future__ import annotations

from memory_ci.lifecycle.episodes import apply_amendments, list_feedback
from memory_ci.lifecycle.utility import compute_utilities
from memory_ci.memory.episodes import load_episodes
from memory_ci.records.episode import Episode
from tests.make import make_id
from tests.project import Project

GIVEN = f"Memory-Retrieved: {make_id(1)}, {make_id(2)}\nMemory-Used: {make_id(1)}\n"


def episodes(project: Project) -> dict[str, Episode]:
    return {
        episode.id: episode
        for episode in apply_amendments(load_episodes(project.workspace, "HEAD").records)
    }


def said(project: Project, number: int = 1) -> list[tuple[str, str]]:
    feedback = list_feedback(load_episodes(project.workspace, "HEAD").records)
    return [(item.kind, item.ref) for item in feedback if item.id == make_id(number)]


def utility(project: Project, number: int = 1) -> float:
    feedback = list_feedback(load_episodes(project.workspace, "HEAD").records)
    return compute_utilities(feedback)[make_id(number)].value
