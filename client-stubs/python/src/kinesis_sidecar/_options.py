# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Callable, Mapping, Sequence

from ._http import Address, Token, target_of

LANES_MAX = 64


@dataclasses.dataclass
class Options:
    """The options of a consumer. Durations are in seconds."""

    client_id: str
    url: str | None = None
    token_file: str | None = None
    subscription: str | None = None
    max_in_flight: int = 1000
    max_in_flight_bytes: int = 16 << 20
    ack_deadline: float = 60.0
    max_processing: float = 3600.0
    ack_interval: float = 0.1
    heartbeat: float = 10.0
    ordering: str | None = None
    lanes: int | None = None
    shards: Sequence[str] | None = None
    share: str | None = None
    salt: str | None = None
    filter: str | Mapping[str, Any] | None = None
    on_event: Callable[[dict[str, Any]], Any] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.client_id):
            raise ValueError(f"client_id must be 1 to 64 of A-Z a-z 0-9 . _ -, got {self.client_id!r}")
        if self.ordering not in (None, "shard", "key", "none"):
            raise ValueError(f"ordering must be shard, key or none, got {self.ordering!r}")
        if self.share is not None and not isinstance(self.share, str):
            raise ValueError(f'share must be a text like "0.05", got {self.share!r}')
        if self.filter is not None and not isinstance(self.filter, str):
            self.filter = json.dumps(self.filter, separators=(",", ":"))
        self.address = Address(self.url)
        self.token = Token(self.token_file)

    def order_for(self, concurrency: int) -> None:
        """Several handlers, and a share, want lanes, unless the app has chosen an ordering."""
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        if self.ordering is None:
            wants_lanes = concurrency > 1 or self.share is not None
            self.ordering = "key" if wants_lanes else "shard"
            if wants_lanes and self.lanes is None:
                self.lanes = LANES_MAX

    def with_subscription(self, path: str, **query: Any) -> str:
        return target_of(path, dict(query, subscription=self.subscription))

    def stream_target(self) -> str:
        return self.with_subscription(
            "/v1/records/stream", client_id=self.client_id, max_in_flight=self.max_in_flight,
            max_in_flight_bytes=self.max_in_flight_bytes, ack_deadline_ms=int(self.ack_deadline * 1000),
            heartbeat_ms=int(self.heartbeat * 1000), ordering=self.ordering,
            lanes=self.lanes, shards=",".join(self.shards) if self.shards else None, share=self.share, salt=self.salt,
            filter=self.filter)

    def settle_target(self) -> str:
        return self.with_subscription("/v1/records/settle")

    def session_target(self) -> str:
        return self.with_subscription("/v1/sessions/" + self.client_id)
