"""Finds the code of an action: in a pack's files, or in a table passed to serve."""

import importlib.util
import os
import sys
import zlib
from types import ModuleType

from . import foreign
from .errors import LoadError, message
from .foreign import read

DEFAULT_FUNCTION = "run"


class Files:
    """Functions named by ``file:function`` entrypoints, each module loaded once per process."""

    def __init__(self):
        self._functions = {}  # (root, entrypoint): (call, source)
        self._modules = {}  # source, the pack's name and the file's path in it: module

    def find(self, args, note=None):
        """Return (call, source) for an execute's or hello's action; call takes (params, ctx). Raises LoadError.

        ``note`` is told what is loaded, before code of it runs.
        """
        key = ref, root, entrypoint = args.get("action") or args.get("ref") or "", args.get("root"), args.get("entrypoint")
        if not all(type(part) is str for part in (ref, root, entrypoint)) or not root or not entrypoint:
            raise LoadError("a python action needs a name, a root and an entrypoint of the form file:function")
        found = self._functions.get(key)
        if found is None:
            if note is not None:
                note("loads %s for action %s" % (entrypoint.partition(":")[0], ref))
            found = self._functions[key] = self._load(ref.partition(".")[0], root, entrypoint)
        return found

    def hooks(self, source):
        """Return the module's (snapshot, restore), or None if it does not have both."""
        module = self._modules.get(source)
        return _pair(read(getattr, module, "snapshot"), read(getattr, module, "restore"))

    def health_hooks(self):
        """Return the health functions of all loaded modules by their files' names."""
        found = ((source, read(getattr, module, "health")) for source, module in self._modules.items())
        return {source: hook for source, hook in found if callable(hook)}

    def _load(self, pack, root, entrypoint):
        file, _, name = entrypoint.partition(":")
        path, file = inside(root, file), os.path.normpath(file)
        try:
            module = sys.modules.get(module_name(root, file)) or load_module(root, file, path)
        except BaseException as exc:  # a module may call sys.exit
            why = message(exc).replace("the action called", "it called", 1) if isinstance(exc, SystemExit) else message(exc)
            raise LoadError("load %s: %s" % (file, why), {"file": path, "traceback": foreign.traceback(exc)}) from None
        name = name or DEFAULT_FUNCTION
        function = read(getattr, module, name)
        if not callable(function):
            raise LoadError("%s has no function %r" % (file, name))
        source = pack + "/" + file  # the same on every node, unlike the root: snapshots name it
        self._modules[source] = module
        return _adapted(function, "%s: %s" % (file, name)), source


class Table:
    """Functions passed to serve, by the name of their action."""

    def __init__(self, actions, health=None, snapshot=None, restore=None):
        self._calls = {name: _adapted(function, name) for name, function in actions.items()}
        self._health = {"health": health} if health else {}
        self._hooks = _pair(snapshot, restore)

    def find(self, args, note=None):
        """Return (call, source) for the action, by its full name or its name inside its pack."""
        ref = args.get("action") or args.get("ref") or ""
        call = self._calls.get(ref) or self._calls.get(ref.partition(".")[2])
        if call is None:
            raise LoadError("this program does not serve action %r; it serves %s" % (ref, ", ".join(sorted(self._calls))))
        return call, "serve"

    def hooks(self, source):
        return self._hooks

    def health_hooks(self):
        return self._health


def inside(root, file):
    """Return the real path of a file of the pack. Raises LoadError if it is missing or outside the pack."""
    home = os.path.realpath(root)
    path = os.path.realpath(os.path.join(home, file))
    if os.path.isabs(file) or os.path.commonpath([home, path]) != home:
        raise LoadError("entrypoint %r leads out of its pack %s" % (file, root))
    if not os.path.isfile(path):
        raise LoadError("entrypoint file %s does not exist in %s" % (file, root))
    return path


def module_name(root, source):
    """Return the module's name: unique to its pack, with a package per folder so that relative imports work."""
    home = "troupe_pack_%08x" % zlib.crc32(os.path.realpath(root).encode())
    parts = source[:-3] if source.endswith(".py") else source
    return ".".join([home] + [part.replace(".", "_").replace("-", "_") for part in parts.split(os.sep)])


def load_module(root, source, path):
    """Run the file as a module under its own name, with the pack's root at the end of the import path."""
    name = module_name(root, source)
    folder = os.path.realpath(root)
    if folder not in sys.path:
        sys.path.append(folder)
    packages = name.split(".")[:-1]
    for depth, part in enumerate([""] + source.split(os.sep)[:-1]):
        folder = os.path.join(folder, part) if part else folder
        _ensure_package(".".join(packages[: depth + 1]), folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise LoadError("%s is no Python file" % source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _ensure_package(name, folder):
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package


def _adapted(function, name):
    """Return the function as call(params, ctx), whether or not it takes a context. Raises LoadError, which begins with name."""
    try:
        takes = _takes_context(function)
    except BaseException as exc:
        raise LoadError("%s: its parameters cannot be read: %s" % (name, message(exc))) from None
    return function if takes else (lambda params, ctx: function(params))


def _takes_context(function):
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & 0x0C:  # not a plain function, or one that takes *args or **kwargs
        import inspect

        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        return kinds.count(1) + kinds.count(0) >= 2 or 2 in kinds
    bound = 1 if getattr(function, "__self__", None) is not None else 0
    return code.co_argcount - bound >= 2


def _pair(snapshot, restore):
    return (snapshot, restore) if callable(snapshot) and callable(restore) else None
