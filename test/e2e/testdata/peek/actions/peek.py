"""Tries to read other processes of its user through /proc."""

import errno
import os
import subprocess


def look(params, ctx):
    """Return what of each process can be read, and this process's own environment."""
    guardian = os.getppid()
    child = subprocess.Popen(["sleep", "60"])
    try:
        family = {"node": params["node"], "guardian": guardian, "watcher": parent(guardian), "child": child.pid}
        seen = {name: {part: tried(pid, part) for part in ("environ", "mem", "maps", "fd")} for name, pid in family.items()}
    finally:
        child.kill()
        child.wait()
    return {"seen": seen, "environ": dict(os.environ), "uid": os.getuid()}


def parent(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def tried(pid, part):
    path = "/proc/%d/%s" % (pid, part)
    try:
        if part == "fd":
            os.listdir(path)
        else:
            open(path, "rb").close()
            if part == "environ":
                open(path, "rb").read()
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "read"
