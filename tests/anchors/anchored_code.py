"""Sample code for tests of anchors, and a function that judges an anchor against new texts."""

from __future__ import annotations

from memory_ci.anchors.anchors import make_anchor
from memory_ci.anchors.verdicts import judge_anchor
from memory_ci.records.anchor import Anchor, Verdict

COMMIT = "3f2ab91c0ffe"

CLIENT = """import time

class Client:
    def get(self, url):
        return self.session.get(url, timeout=30)

    def post(self, url, key):
        if key is None:
            raise ValueError("no idempotency key")
        return self.session.post(url, headers={"Idempotency-Key": key})

RETRIES = 3
"""
POST = (7, 10)
SYMBOL = make_anchor("client.py", CLIENT, COMMIT, symbol="Client.post")
WHOLE = make_anchor("client.py", CLIENT, COMMIT)
CRLF = CLIENT.replace("\n", "\r\n")
SHIFTED = "# a licence\n# in three\n# lines\n" + CLIENT
EDITED = CLIENT.replace("no idempotency key", "a key is needed")


def judge_text(
    anchor: Anchor, text: str | None, then: str | None = CLIENT, **others: str
) -> Verdict:
    """Return the verdict on an anchor if its file has a new text (None: removed) and `others` are the other files."""
    files = ({"client.py": text} if text is not None else {}) | {
        f"{name}.py": text for name, text in others.items()
    }
    return judge_anchor(anchor, then, files, "client.py" if text is not None else None)
