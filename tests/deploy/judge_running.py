# SPDX-License-Identifier: Apache-2.0
"""The demo of the chart as processes of this machine: environment, probes, hooks and script are those that are rendered."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request

import world
from world import BUSYBOX, CHART, NEW, OLD, PROMLINT, SIDECAR, environment, equal, named, of_kind, render, run

SECONDS = 60


def free_port():
    """Below the range from which the kernel gives ports to others."""
    for port in range(20000, 32768):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in free_port.given:
                free_port.given.add(port)
                return port
    raise AssertionError("no free port")


free_port.given = set()


class Demo:
    """The two containers of the demo, which share this machine as they would share a pod."""

    def __init__(self, version):
        self.ports = {"api": free_port(), "ops": free_port()}
        values = {"demo": {"enabled": True}, "kinesisSidecar": {"ports": self.ports}}
        spec = of_kind(render(CHART, values, version), "Deployment")["spec"]["template"]["spec"]
        self.sidecar = named(spec.get("initContainers", []) + spec["containers"], "kinesis-sidecar")
        self.app = named(spec["containers"], "app")
        self.folder = os.path.join(world.WORK, f"demo-{version}")
        for name in ("data", "run"):
            os.makedirs(os.path.join(self.folder, name))
        self.environment = {"PATH": BUSYBOX}
        for name, value in environment(self.sidecar).items():
            value = re.sub(r"/data\b", self.folder + "/data", value if value is not None else "pod-0")
            self.environment[name] = value.replace("/run/kinesis-sidecar", self.folder + "/run")

    def hook(self, name):
        command = self.sidecar["lifecycle"][name]["exec"]["command"]
        equal(command[0], "/kinesis-sidecar")
        return [SIDECAR] + command[1:]

    def probe(self, name):
        what = self.sidecar[name]["httpGet"]
        equal(what["port"], self.sidecar["ports"][0]["name"])
        port = self.sidecar["ports"][0]["containerPort"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{what['path']}", timeout=10) as answer:
            return answer.status

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['ops']}/metrics", timeout=10) as answer:
            return answer.read().decode()


def judge_demo(version, cases):
    demo = Demo(version)
    log = os.path.join(demo.folder, "sidecar.log")
    with open(log, "w", encoding="utf-8") as file:
        sidecar = subprocess.Popen([SIDECAR], env=demo.environment, stdout=file, stderr=file)
    app = None
    try:
        # The hook of an ordinary container; what the kubelet does with a native one, by the probe.
        run(SIDECAR, "wait", "--timeout-ms", "60000", env=demo.environment)
        if "postStart" in demo.sidecar["lifecycle"]:
            run(*demo.hook("postStart"), env=demo.environment)
        for probe in ("startupProbe", "livenessProbe"):
            equal(demo.probe(probe), 200, probe)
        output = os.path.join(demo.folder, "app.log")
        with open(output, "w", encoding="utf-8") as file:
            command = [os.path.join(BUSYBOX, "busybox"), demo.app["command"][0], *demo.app["command"][1:], *demo.app["args"]]
            variables = {**environment(demo.app), "PATH": BUSYBOX + ":" + os.environ["PATH"]}
            app = subprocess.Popen(command, env=variables, stdout=file, stderr=file, start_new_session=True)
        wait_for(lambda: acked(demo.metrics()) >= 3, output, log)
        with open(output, encoding="utf-8") as file:
            assert "order 2" in file.read(), "the app prints its records"
        cases.case(f"demo of {version}: promlint", lambda: run(PROMLINT, input=demo.metrics()))
        run(*demo.hook("preStop"), env=demo.environment)
        equal(sidecar.poll(), None, "the sidecar stays up after preStop")
    finally:
        if app:
            os.killpg(app.pid, signal.SIGKILL)
            app.wait()
        sidecar.terminate()
        status = sidecar.wait(60)
    equal(status, 0, "exit status after SIGTERM")


def acked(metrics):
    match = re.search(r'^kinesis_sidecar_records_acked_total\{subscription="demo"\} (\d+)', metrics, re.MULTILINE)
    return int(match[1]) if match else 0


def wait_for(condition, *logs):
    until = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > until:
            said = ""
            for log in logs:
                with open(log, encoding="utf-8") as file:
                    said += file.read()[-2000:]
            raise AssertionError(f"nothing is acknowledged\n{said}")
        time.sleep(0.2)


def judge(cases):
    for version in (NEW, OLD):
        cases.case(f"demo of {version}: runs, is probed, drains and ends", judge_demo, version, cases)
