# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any


class SidecarError(Exception):
    """The sidecar refused a request. `status` is the HTTP status, `code` the short reason, `retry_after` in seconds."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None):
        sentence = problem.get("detail") or problem.get("title") or "refused"
        super().__init__(f"{status} {sentence}" if status else sentence)
        self.status = status
        self.code: str = problem.get("code", "")
        self.problem = problem
        self.retry_after = retry_after

    @property
    def is_temporary(self) -> bool:
        """The same request may succeed later."""
        return self.status in (429, 500, 502, 503, 504) or (self.status == 409 and self.problem.get("retryable") is True)


class SessionTakenOver(Exception):
    """Another process opened a stream with the same client_id."""
