#!/usr/bin/env python3
"""A worker that speaks the frames itself and misbehaves as the files in the folder that LAB names say."""

import json
import os
import struct
import sys
import threading
import time

LAB = os.environ["LAB"]
lock = threading.Lock()
sys.stdin.close()


def asked(name):
    return os.path.exists(os.path.join(LAB, name))


def send(event, ident, **fields):
    body = json.dumps(dict(event=event, id=ident, **fields)).encode()
    with lock:
        os.write(4, struct.pack(">I", len(body)) + body)


def read(n):
    data = b""
    while len(data) < n:
        part = os.read(3, n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def execute(ident, params):
    while "file" in params and not asked(params["file"]):
        time.sleep(0.01)
    time.sleep(params.get("seconds", 0))
    if params.get("exit"):
        os._exit(9)
    if params.get("garbage"):
        os.write(4, b"\0\0\0\4oops")
    if params.get("close"):
        return send("result", ident, data={}, close=True)
    if params.get("error"):
        return send("error", ident, error={"code": "odd", "message": "as asked", "worker_fault": params.get("worker_fault", False)})
    send("result", ident, data={"pid": os.getpid()})


def check(ident, name):
    while asked("slow"):
        time.sleep(0.01)
    if asked("mute"):
        return
    if asked("sick") or asked("sick_" + name):
        return send("error", ident, error={"code": "sick", "message": "as asked"})
    send("result", ident, data={})


while True:
    request = json.loads(read(struct.unpack(">I", read(4))[0]))
    ident, command, args = request["id"], request["command"], request.get("args", {})
    if command == "hello":
        while asked("deaf"):
            time.sleep(0.01)
        if asked("refuse"):
            send("error", ident, error={"code": "no", "message": "not today"})
        else:
            send("result", ident, data={"protocol": 1, "sdk": "odd", "version": "1", "pid": os.getpid(),
                                        "capabilities": {"ping_while_busy": True, "sessions": True, "health_check": True}})
            if asked("faint"):
                os._exit(7)
    elif command == "execute":
        threading.Thread(target=execute, args=(ident, args["parameters"]), daemon=True).start()
    elif command in ("ping", "health_check"):
        threading.Thread(target=check, args=(ident, command), daemon=True).start()
    elif command == "shutdown":
        send("result", ident, data={})
        os._exit(0)
    else:
        if command == "end_session":
            with open(os.path.join(LAB, "ended"), "a") as f:
                f.write("%s %d\n" % (args["session"], args["epoch"]))
        send("result", ident, data={})
