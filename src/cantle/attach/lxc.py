"""LXC containers: device nodes by the container's configuration, and at once where it runs (spec S2.2, S2.5).

A container's own configuration gets two lines for each lease and keeps every other line as it is. What the lease stands for is in a file
below ``/run``, which the second line includes: so majors and minors are not kept over a reboot, and a container with a lease does not
start before its cards are there again. That file is also our book of what the container was permitted: cgroup v2 cannot be asked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from cantle.attach.hooks import installed
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel import container, rootfs
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo

#: Where liblxc keeps containers (its default ``lxc.lxcpath``), and where our files are.
CONTAINERS = "var/lib/lxc"
BOOK = "run/cantle/lxc"

_log = logging.getLogger(__name__)

_MARK = "# cantle: lease "
_RULE = re.compile(r"lxc\.cgroup2?\.devices\.allow = c ([0-9]+):([0-9]+) rw")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_MOUNT = re.compile(r"lxc\.mount\.entry = (\S+) ")
_ROOTFS = re.compile(r"\s*lxc\.rootfs\.path\s*=\s*(?:dir:)?(/\S+)\s*")


def book(name: str, lease: str) -> str:
    """The file that says what a lease gives to a container, below the root."""
    return f"{BOOK}/{name}/{lease}.conf"


def entries(layout: container.Layout, lease: str, nodes: Iterable[Node], hooks: Iterable[str] = ()) -> str:
    """The text of that file: for each node permission and mount, and the hooks that ask the agent."""
    lines = [f"# Written by Cantle for lease {lease}, and anew after each boot. It goes when the lease does."]
    for node in sorted(set(nodes)):
        lines.append(f"{layout}.allow = {container.rule(node)}")
        lines.append(f"lxc.mount.entry = {node.path} {node.path.lstrip('/')} none bind,create=file 0 0")
    return "\n".join((*lines, *hooks)) + "\n"


def _text(root: Root, name: str, lease: str, nodes: Iterable[Node]) -> str:
    """The same with the hooks of this host. They are told the numbers that stand beside them: those are what liblxc has read."""
    nodes = sorted(set(nodes))
    numbers = [container.number(node) for node in nodes]
    return entries(container.layout(root), lease, nodes, installed.lines(root, name, lease, numbers))


def parse_entries(text: str) -> tuple[Node, ...]:
    """The nodes that such a file names."""
    rules = [match for line in text.split("\n") if (match := _RULE.fullmatch(line))]
    mounts = [match for line in text.split("\n") if (match := _MOUNT.match(line))]
    return tuple(Node(mount[1], int(rule[1]), int(rule[2])) for rule, mount in zip(rules, mounts, strict=False))


def included(config: str, lease: str, path: str) -> str:
    """A container's configuration with the lease in it, once and at its end: a rule further down may take back earlier ones."""
    config = excluded(config, lease, path)
    ending = "" if not config or config.endswith("\n") else "\n"
    return f"{config}{ending}{_MARK}{lease}\nlxc.include = {path}\n"


def excluded(config: str, lease: str, path: str) -> str:
    """The same without it. Nothing else changes, not even blanks."""
    ours = {f"{_MARK}{lease}", f"lxc.include = {path}"}
    return "".join(line for line in _LINES.findall(config) if line.strip() not in ours)


def is_there(root: Root, name: str) -> bool:
    """Whether there is a container of this name, running or not."""
    return root.exists(_config_path(name))


def stands(root: Root, name: str, lease: str, nodes: Sequence[Node]) -> bool:
    """Whether everything is as :func:`enter` leaves it.

    :raises CantleError: it cannot be found out.
    """
    wanted = _text(root, name, lease, nodes)
    if root.read_or_none(book(name, lease)) != wanted.removesuffix("\n"):
        return False
    config = _config(root, name)
    if config != included(config, lease, root.host_path(book(name, lease))):
        return False
    pid = container.init_pid(root, name)
    return pid is None or all(container.has(root, pid, node) for node in nodes)


def enter(root: Root, name: str, lease: str, nodes: Sequence[Node], undo: Undo) -> None:
    """Give nodes to a container, for good and at once.

    :raises NotFound: ``guest-not-found``.
    :raises Conflict: ``no-device-cgroup``, ``node-missing``.
    :raises HostError: ``host-write-failed``, ``container-refused``, ``tool-not-run``; what was done is on the stack.
    """
    config = _config(root, name)
    text, place = _text(root, name, lease, nodes), book(name, lease)
    check_there(root, nodes)
    before = root.read_or_none(place)
    root.replace(place, text.encode())
    undo.push(f"write {root.host_path(place)} as it was", partial(_restore, root, place, before))
    _edit(root, name, config, included(config, lease, root.host_path(place)), undo)
    pid = container.init_pid(root, name)
    for node in nodes if pid is not None else ():
        undo.push(f"take {node.path} from {name} again", partial(_withdraw, root, name, node))
        _give(root, name, node)
    gone = set(parse_entries(before or "")) - {_plain(node) for node in nodes}
    for node in gone - _of_others(root, name, lease):
        _withdraw(root, name, node)


def leave(root: Root, name: str, lease: str, undo: Undo) -> None:
    """Take from a container what :func:`enter` gave it, but for what another lease gives it too. A container that is gone has nothing.

    :raises HostError: ``host-write-failed``, ``container-refused``, ``tool-not-run``; what was done is on the stack.
    """
    place = book(name, lease)
    text = root.read_or_none(place)
    if root.exists(_config_path(name)):
        config = _config(root, name)
        _edit(root, name, config, excluded(config, lease, root.host_path(place)), undo)
    gone = sorted(set(parse_entries(text or "")) - _of_others(root, name, lease))
    for node in gone:
        undo.push(f"give {node.path} to {name} again", partial(_give, root, name, node))
        _withdraw(root, name, node)
    root.remove(place)
    if container.init_pid(root, name) is None:
        _sweep(root, name, gone)


def refresh(root: Root, name: str, lease: str, nodes: Sequence[Node]) -> None:
    """Before a start: have the numbers of now in the book, and nothing in the nodes' places in the container's files. liblxc has read its
    configuration by then: what it goes by is put right by :func:`correct`, once the container runs.

    :raises CantleError: as of :func:`enter`.
    """
    text, place = _text(root, name, lease, nodes), book(name, lease)
    check_there(root, nodes)
    if root.read_or_none(place) != text.removesuffix("\n"):
        root.replace(place, text.encode())
    _sweep(root, name, nodes)


def correct(root: Root, name: str, lease: str, nodes: Iterable[Node], permitted: Collection[str]) -> None:
    """Of a container that runs now: permit what it was not, forbid what is not the lease's any more.

    :param permitted: the numbers (``226:128``) that it started with.
    :raises HostError: ``container-refused``, ``tool-not-run``.
    """
    now = {container.number(node): node for node in nodes}
    for number, node in now.items():
        if number not in permitted:
            container.permit(root, name, node)
    kept = {container.number(node) for node in _of_others(root, name, lease)}
    for number in set(permitted) - now.keys() - kept:
        container.forbid(root, name, container.stranger(number))


def without_hooks(root: Root) -> None:
    """No container's configuration of a lease names our hooks any more: a container does not start with a hook that is not there.

    :raises HostError: ``host-read-failed``, ``host-write-failed``.
    """
    for place in (f"{BOOK}/{name}/{file}" for name in root.names(BOOK) for file in root.names(f"{BOOK}/{name}")):
        text = root.read(place) + "\n"
        kept = "".join(line for line in _LINES.findall(text) if not line.startswith("lxc.hook."))
        if kept != text:
            root.replace(place, kept.encode())


def check_there(root: Root, nodes: Iterable[Node]) -> None:
    """:raises Conflict: ``node-missing``: a container could not be started with it."""
    missing = [node.path for node in nodes if not root.exists(node.path.lstrip("/"))]
    if missing:
        raise Conflict(
            "node-missing",
            f"the kernel has the device, and /dev has no node of it: {', '.join(missing)}; for NVIDIA's: nvidia-modprobe -u -c 0",
            nodes=missing,
        )


def _sweep(root: Root, name: str, nodes: Iterable[Node]) -> None:
    """Of a container that does not run and whose files are a directory: nothing is left where its nodes were, or will be. What cannot be
    swept opens nothing: there is no permission for it."""
    if not root.exists(_config_path(name)):
        return
    named = [match[1] for line in _config(root, name).split("\n") if (match := _ROOTFS.fullmatch(line))]
    for node in nodes:
        try:
            rootfs.sweep(root, named[-1] if named else root.host_path(f"{CONTAINERS}/{name}/rootfs"), node.path)
        except HostError as error:
            _log.warning("lxc:%s keeps what is left of a device node: %s", name, error)


def _give(root: Root, name: str, node: Node) -> None:
    pid = container.init_pid(root, name)
    if pid is not None:
        container.permit(root, name, node)
        container.put(root, pid, node)


def _withdraw(root: Root, name: str, node: Node) -> None:
    pid = container.init_pid(root, name)
    if pid is not None:
        container.forbid(root, name, node)
        container.take(root, pid, node)


def _of_others(root: Root, name: str, lease: str) -> set[Node]:
    """What other leases give to the same container."""
    files = [file for file in root.names(f"{BOOK}/{name}") if file != f"{lease}.conf"]
    texts = (root.read_or_none(f"{BOOK}/{name}/{file}") or "" for file in files)
    return {node for text in texts for node in parse_entries(text)}


def _plain(node: Node) -> Node:
    return Node(node.path, node.major, node.minor)


def _edit(root: Root, name: str, before: str, after: str, undo: Undo) -> None:
    if before == after:
        return
    place = _config_path(name)
    try:
        root.replace(place, _bytes(after))
    except HostError as error:
        mend = "A lease is two lines in it: let root write there (mount, chattr), and it is tried again"
        raise HostError(error.code, f"{error.message}. {mend}", path=error.path, errno=error.errno) from error
    undo.push(f"write {root.host_path(place)} as it was", partial(root.replace, place, _bytes(before)))


def _restore(root: Root, place: str, before: str | None) -> None:
    if before is None:
        root.remove(place)
    else:
        root.replace(place, f"{before}\n".encode())


def _config_path(name: str) -> str:
    return f"{CONTAINERS}/{name}/config"


def _config(root: Root, name: str) -> str:
    place = _config_path(name)
    try:
        return root.read_bytes(place).decode("utf-8", "surrogateescape")  # people write in whatever letters they have
    except HostError as error:
        if not root.exists(place):
            raise NotFound(
                "guest-not-found",
                f"there is no LXC container {name} on this host: no {root.host_path(place)}; 'lxc-ls' names those there are",
                guest=f"lxc:{name}",
            ) from error
        raise


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
