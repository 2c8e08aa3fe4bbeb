"""The words by which a Codex rollout is understood: silent records, calls, and how refusals and failures read."""

from __future__ import annotations

import re

from memory_ci.sources.transcripts.fields import as_dict, decode, joined_text

SILENT = frozenset(
    """session_meta turn_context world_state token_usage_record state event_msg/token_count event_msg/agent_message
    event_msg/agent_reasoning event_msg/agent_reasoning_raw_content event_msg/agent_reasoning_section_break
    event_msg/thread_settings_applied event_msg/exec_command_begin event_msg/exec_command_end
    event_msg/patch_apply_begin event_msg/patch_apply_end event_msg/mcp_tool_call_begin event_msg/mcp_tool_call_end
    event_msg/web_search_begin event_msg/web_search_end event_msg/context_compacted event_msg/item_started
    event_msg/item_completed event_msg/entered_review_mode event_msg/exited_review_mode event_msg/turn_diff
    event_msg/plan_update event_msg/error event_msg/warning event_msg/stream_error response_item/reasoning
    response_item/compaction response_item/compaction_summary response_item/context_compaction""".split()
)
"""Records that are known and say nothing that another record does not say."""

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
STARTS, ENDS = frozenset({"task_started", "turn_started"}), frozenset({"task_complete", "turn_complete"})

ABORTED = "<turn_aborted>"
REJECTED = frozenset({"exec command rejected by user", "patch rejected by user", "rejected by user"})
"""The whole output of a call that a person refused; Codex records no reason. A guardian's refusal reads otherwise."""

EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
FAILED = (
    "execution error:",
    "failed in sandbox",
    "aborted",
    "apply_patch verification failed",
    "This action was rejected",
)
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def outcome(output: object) -> tuple[str, bool | None]:
    """Text and success of a tool's output: text, parts, or an object (as such or as JSON in the text)."""
    if isinstance(output, str) and output.startswith("{"):
        output = as_dict(decode(output.encode(errors="replace"))) or output
    given = as_dict(output)
    text = joined_text(given.get("output", given.get("content")) if given else output)
    code = as_dict(given.get("metadata")).get("exit_code")
    if isinstance(code, int):
        return text, code == 0
    if isinstance(given.get("success"), bool):
        return text, given["success"]
    if found := EXIT_CODE.search(text):
        return text, found[1] == "0"
    return text, False if text.startswith(FAILED) else None
