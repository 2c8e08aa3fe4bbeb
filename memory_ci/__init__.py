"""Git-native memory for coding agents.

The API is `Memory` (docs/api.md), with the options and the errors of its methods.
"""

from __future__ import annotations

TYPE_CHECKING = False  # The import of typing takes as long as Python's own start.
if TYPE_CHECKING:
    from typing import Any

    from memory_ci.api import Memory
    from memory_ci.commands.record.run_options import RecordOptions
    from memory_ci.commands.retrieve.options import RetrieveOptions
    from memory_ci.errors import MemoryCIError

__version__ = "0.2.0"
__all__ = ["Memory", "MemoryCIError", "RecordOptions", "RetrieveOptions"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    """Import the API when it is first used, so that a hook does not pay for it."""
    if name == "Memory":
        from memory_ci.api import Memory

        return Memory
    if name == "MemoryCIError":
        from memory_ci.errors import MemoryCIError

        return MemoryCIError
    if name == "RecordOptions":
        from memory_ci.commands.record.run_options import RecordOptions

        return RecordOptions
    if name == "RetrieveOptions":
        from memory_ci.commands.retrieve.options import RetrieveOptions

        return RetrieveOptions
    raise AttributeError(name)
