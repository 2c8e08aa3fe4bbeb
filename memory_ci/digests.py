"""BLAKE2b from Python's own module: `hashlib` would load OpenSSL first, which takes 3 ms."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # Another implementation of Python has it in hashlib alone.
    from hashlib import blake2b

__all__ = ["blake2b"]
