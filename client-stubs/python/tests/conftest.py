# SPDX-License-Identifier: Apache-2.0
import contextlib

import pytest
from support import RealSidecar, ScriptedServer

import kinesis_sidecar._wire


@pytest.fixture
def server(monkeypatch):
    """A scripted server. It writes NDJSON."""
    monkeypatch.setattr(kinesis_sidecar._wire, "HAS_PROTOBUF", False)
    server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture(params=["protobuf", "ndjson"])
def sidecar(request, tmp_path, monkeypatch):
    """The real sidecar, by both encodings of the stream."""
    assert kinesis_sidecar._wire.HAS_PROTOBUF
    monkeypatch.setattr(kinesis_sidecar._wire, "HAS_PROTOBUF", request.param == "protobuf")
    sidecar = RealSidecar(str(tmp_path)).start()
    yield sidecar
    with contextlib.suppress(ProcessLookupError):
        sidecar.kill()
