"""Engines: request in, reply text out. Parsing, salvage, grounding and gating are outside, and the same for all.

The records stand in extraction.request, for the prompt is made of them too, and no engine is under the prompt.
"""

from memory_ci.extraction.request import Engine, EngineReply, Known, Request, Task, Usage

__all__ = ["Engine", "EngineReply", "Known", "Request", "Task", "Usage"]
