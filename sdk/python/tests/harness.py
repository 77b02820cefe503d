"""Runs a real worker process over bare pipes."""

import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

SDK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 10  # seconds to wait for any event


class Worker:
    """One worker process with a pack of the given files; use it as a context manager."""

    def __init__(self, files=None, argv=None):
        self.root = tempfile.TemporaryDirectory()
        for name, text in (files or {}).items():
            path = os.path.join(self.root.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(textwrap.dedent(text))
        self.last = 0
        self.rest = b""
        self._start(argv or [sys.executable, "-m", "troupe_worker"])

    def _start(self, argv):
        requests_out, self.requests = os.pipe()
        self.events, events_in = os.pipe()
        # The shell gives the pipes their numbers, whatever files this process has under them.
        script = 'exec "$@" 3<&%d 4>&%d' % (requests_out, events_in)
        env = dict(os.environ, PYTHONPATH=SDK)
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash"] + argv, pass_fds=(requests_out, events_in), env=env, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(requests_out)
        os.close(events_in)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if self.requests is not None:
            os.close(self.requests)
        os.close(self.events)
        self.root.cleanup()

    def frame(self, command, args):
        self.last += 1
        body = json.dumps({"id": self.last, "command": command, "args": args}).encode()
        return struct.pack(">I", len(body)) + body

    def write(self, data):
        while data:
            data = data[os.write(self.requests, data):]

    def send(self, command, **args):
        self.write(self.frame(command, args))
        return self.last

    def event(self):
        """Return the next event of the worker."""
        end = time.monotonic() + PATIENCE
        while True:
            if len(self.rest) >= 4:
                size = 4 + struct.unpack(">I", self.rest[:4])[0]
                if len(self.rest) >= size:
                    body, self.rest = self.rest[4:size], self.rest[size:]
                    return json.loads(body)
            if not select.select([self.events], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("no event within %d s" % PATIENCE)
            data = os.read(self.events, 1 << 20)
            if not data:
                raise AssertionError("the worker ended: %r" % self.process.communicate()[1])
            self.rest += data

    def ask(self, command, **args):
        """Send a request and return its answer."""
        request = self.send(command, **args)
        answer = self.event()
        assert answer["id"] == request, answer
        return answer

    def execution(self, function, parameters=None, session=None, file="a.py", **more):
        return dict({
            "execution": "0199", "attempt": 1, "action": "t." + function, "root": self.root.name,
            "entrypoint": "%s:%s" % (file, function), "parameters": parameters or {}, "session": session,
            "deadline_ms": 60000, "retry_count": 0, "trace": "00-1-2-01", "trace_state": "a=1"}, **more)

    def run(self, function, parameters=None, session=None, **more):
        """Execute and return the answer; events before it are in self.told."""
        request = self.send("execute", **self.execution(function, parameters, session, **more))
        self.told = []
        while True:
            event = self.event()
            assert event["id"] == request, event
            if event["event"] in ("result", "error"):
                return event
            self.told.append(event)

    def begin(self, function, parameters=None):
        """Start an execution whose action first reports progress, and return its id once it has."""
        request = self.send("execute", **self.execution(function, parameters))
        event = self.event()
        assert event["event"] == "progress", event
        return request

    def hello(self, *functions, file="a.py", **more):
        actions = [{"ref": "t." + f, "root": self.root.name, "entrypoint": "%s:%s" % (file, f)} for f in functions]
        return self.ask("hello", protocol=1, worker="n/p/0", generation=1, pool="p", actions=actions, **more)

    def raw(self, text):
        """Send a frame of the given bytes, and return the next event."""
        self.write(struct.pack(">I", len(text)) + text)
        return self.event()

    def close_input(self):
        os.close(self.requests)
        self.requests = None

    def exit_status(self):
        return self.process.wait(PATIENCE)
