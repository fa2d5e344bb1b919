# SPDX-License-Identifier: Apache-2.0
"""Consumers of kinesis-sidecar. `Consumer` is the blocking one; `kinesis_sidecar.aio` has the one for asyncio."""

from ._base import Batch
from ._errors import SessionTakenOver, SidecarError
from ._record import Record
from ._sync import Consumer

__all__ = ["Batch", "Consumer", "Record", "SessionTakenOver", "SidecarError"]
__version__ = "0.1.0"
