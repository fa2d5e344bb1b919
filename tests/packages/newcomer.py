#!/usr/bin/env python3
"""newcomer.py c|csharp - runs the lines of a package's README in an empty folder, beside `make run`.

The lines are those of its first code blocks, as they are: shell lines run in the folder, and a block of code is written to
the file that the shell line after it names. What they would install into the system goes into the folder, by variables of
the environment alone. The example must print records of the stream, and end with 0 at SIGTERM. KS_BIN is the sidecar
(default: build/kinesis-sidecar). For C# the package must be in build/packages-test/csharp.
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_SECONDS = 120
RECORDS = 3


def free_ports():
    """The first of two ports in a row that are free, as `make run` takes them."""
    for port in range(20000 + os.getpid() % 5000, 32000):
        with socket.socket() as one, socket.socket() as other, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port
    raise RuntimeError("no free ports")


def blocks_of(language, heading=None):
    """(kind, text) of each code block of the README, or of a section of it."""
    with open(f"{ROOT}/client-stubs/{language}/README.md", encoding="utf-8") as readme:
        text = readme.read()
    if heading is not None:
        text = text[text.index(f"## {heading}\n"):]
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def wait_until(fact, what):
    until = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.1)


def shell(line, folder, **variables):
    done = subprocess.run(line, shell=True, cwd=folder, env={**os.environ, **variables}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}"


@contextlib.contextmanager
def make_run(folder):
    """What `make run` starts: a sidecar on a local stream, and a producer. Yields its address."""
    port = free_ports()
    path = os.path.join(folder, "run.log")
    variables = {**os.environ, "PORT": str(port), "RUN_DIR": os.path.join(folder, "run")}
    with open(path, "wb") as log:
        run = subprocess.Popen([f"{ROOT}/deploy/run", os.environ.get("KS_BIN", f"{ROOT}/build/kinesis-sidecar")],
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables, start_new_session=True)
    try:
        wait_until(lambda: "/v1/shards" in open(path, encoding="utf-8").read(), "make run is ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(run.pid, signal.SIGINT)
        run.wait(PATIENCE_SECONDS)


def settled(url):
    with urllib.request.urlopen(url + "/v1/shards", timeout=10) as answer:
        return sum(shard["settled"] for shard in json.load(answer)["shards"])


def run_example(command, folder, url, **variables):
    """The example handles records, ends with 0 at SIGTERM, and has printed a line for each."""
    path = os.path.join(folder, "example.log")
    with open(path, "wb") as log:
        example = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log,
                                   env={**os.environ, "KINESIS_SIDECAR_URL": url, **variables})
    try:
        wait_until(lambda: example.poll() is not None or settled(url) >= RECORDS, "the example handles records")
        example.send_signal(signal.SIGTERM)
        code = example.wait(PATIENCE_SECONDS)
    finally:
        if example.poll() is None:
            example.kill()
            example.wait()
    with open(path, encoding="utf-8") as log:
        printed = log.read()
    lines = re.findall(r"^[0-9a-f]+: order \d+ of \S+$", printed, re.MULTILINE)
    assert code == 0 and len(lines) >= RECORDS, f"it ended with {code} and printed:\n{printed}"


def newcomer_c(folder, url):
    (_, install), (_, build), (_, code), (_, compile_line) = blocks_of("c")[:4]
    assert install.startswith("apt install ./libkinesis-sidecar-client1_"), install  # `make packages` builds these.
    sources, root = os.path.join(folder, "sources"), os.path.join(folder, "root")
    shutil.copytree(f"{ROOT}/client-stubs/c", sources)
    shell(build, sources, DESTDIR=root)
    library = os.path.dirname(glob.glob(f"{root}/usr/local/lib/**/libkinesis-sidecar-client.so", recursive=True)[0])
    with open(os.path.join(folder, "example.c"), "w", encoding="utf-8") as example:
        example.write(code)
    shell(compile_line, folder, PKG_CONFIG_PATH=f"{library}/pkgconfig", PKG_CONFIG_SYSROOT_DIR=root)
    run_example(["./example"], folder, url, LD_LIBRARY_PATH=library)


def newcomer_csharp(folder, url):
    (_, unpack), (_, code), (_, compile_line) = blocks_of("csharp", "With mono")[:3]
    for package in glob.glob(f"{ROOT}/build/packages-test/csharp/KinesisSidecar.Client.[0-9]*.nupkg"):
        shutil.copy(package, folder)
    shell(unpack, folder)
    with open(os.path.join(folder, "Example.cs"), "w", encoding="utf-8") as example:
        example.write(code)
    *compile_lines, start = compile_line.strip().split("\n")
    for line in compile_lines:
        shell(line, folder)
    name, value, *command = re.fullmatch(r"(\w+)=(\S+) (mono) (\S+)", start).groups()
    run_example(command, folder, url, **{name: value})


def main():
    # A shell without job control has its background commands ignore SIGINT: `make run` would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    language = sys.argv[1]
    folder = tempfile.mkdtemp(prefix="ks-newcomer-")
    try:
        with make_run(folder) as url:
            empty = os.path.join(folder, "empty")
            os.mkdir(empty)
            globals()[f"newcomer_{language}"](empty, url)
    finally:
        shutil.rmtree(folder)
    print(f"{language}: the README's lines work")


if __name__ == "__main__":
    main()
