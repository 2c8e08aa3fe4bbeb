// memory-ci init --clone --agent opencode: this file is replaced by the next install.
import { spawnSync } from "node:child_process"

const call = (event, data, cwd) => {
  const input = JSON.stringify({ hook_event_name: event, cwd, ...data })
  const args = ["hook", "agent", "--for", "opencode"]
  const run = spawnSync("memory-ci", args, { input, encoding: "utf8", timeout: 20000 })
  try { return JSON.parse(run.stdout).hookSpecificOutput.additionalContext } catch { return "" }
}

export const MemoryCI = async ({ directory }) => {
  const begun = new Set()
  return {
    "chat.message": async (input, output) => {
      const session_id = input.sessionID
      const said = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      if (said.length === 0) return
      const prompt = said.map((part) => part.text).join("\n")
      const start = begun.has(session_id) ? "" : call("SessionStart", { session_id, source: "startup" }, directory)
      begun.add(session_id)
      const text = [start, call("UserPromptSubmit", { session_id, prompt }, directory)].filter(Boolean).join("\n")
      const id = "prt_" + Date.now().toString(16) + Math.random().toString(36).slice(2, 12)
      if (text) output.parts.push({ ...said[0], id, text, synthetic: true })
    },
    "tool.execute.after": async (input, output) => {
      const tool = { tool_name: input.tool, tool_input: input.args ?? output.metadata ?? {} }
      const text = call("PostToolUse", { session_id: input.sessionID, ...tool }, directory)
      if (text) output.output += "\n" + text
    },
    event: async ({ event }) => {
      const session_id = event.properties.sessionID
      if (event.type === "session.idle" && begun.has(session_id)) call("Stop", { session_id }, directory)
    },
    "shell.env": async (input, output) => {
      if (input.sessionID) output.env.MEMORY_CI_SESSION = "opencode:" + input.sessionID
    },
  }
}
