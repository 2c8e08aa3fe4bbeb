"""Times as forges write them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone; one without cannot be compared with any other."""
