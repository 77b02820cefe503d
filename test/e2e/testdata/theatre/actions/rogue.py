"""A worker that speaks the frame protocol by hand, so that it can break it: parameter "do" says how."""

import json
import os
import signal
import struct
import sys
import time

TALK = "spoken on stdout, which is no frame\n"


def read(count):
    data = b""
    while len(data) < count:
        part = os.read(3, count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def write(data):
    while data:
        data = data[os.write(4, data):]


def send(event):
    body = json.dumps(event).encode()
    write(struct.pack(">I", len(body)) + body)


def garbage(_):
    write(struct.pack(">I", 12) + b"\x00<script>{{{ ")


def oversize(_):
    write(struct.pack(">I", (16 << 20) + 1) + b"{" * 4096)


def half(_):
    write(struct.pack(">I", 4096) + b'{"event": "res')
    time.sleep(600)


def talk(params):
    sys.stdout.write(TALK * params.get("lines", 1000))
    sys.stdout.flush()
    sys.stderr.write("and on stderr\n")
    return {"talked": True}


def ignore(_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(600)


def fork(_):
    """Leave a grandchild behind in a session of its own, which no signal to the group reaches."""
    out, into = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid:
            os.write(into, str(pid).encode())
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        os._exit(0)
    os.wait()
    return {"pid": int(os.read(out, 16))}


def eat(_):
    held = []
    while True:
        held.append(b"\1" * (4 << 20))
        time.sleep(0.01)


def leave(_):
    sys.stderr.write("the show is over\n")
    sys.stderr.flush()
    os._exit(0)


def stray(_):
    """Answer a request that nobody made."""
    send({"event": "result", "id": 1 << 40, "data": {}})
    return {}


ACTS = {f.__name__: f for f in (garbage, oversize, half, talk, ignore, fork, eat, leave, stray)}


def answer(request):
    if request["command"] == "hello" and os.environ.get("ROGUE_HELLO") == "never":
        time.sleep(600)
    if request["command"] == "hello":
        return {"protocol": 1, "sdk": "rogue", "version": "1", "pid": os.getpid(), "capabilities": {}}
    if request["command"] != "execute":
        return {}
    params = request["args"]["parameters"]
    act = ACTS.get(params.get("do"))
    return act(params) if act else {"pid": os.getpid()}


for number in (3, 4):
    os.set_inheritable(number, False)
while True:
    request = json.loads(read(struct.unpack(">I", read(4))[0]))
    send({"event": "result", "id": request["id"], "data": answer(request)})
    if request["command"] == "shutdown":
        sys.exit(0)
