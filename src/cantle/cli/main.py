"""The ``cantle`` command: finds the subcommand, loads only that one, and turns every failure into one line and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from cantle import __version__, errors
from cantle.cli import exit_codes
from cantle.cli.exit_codes import ExitCode
from cantle.cli.output import safe
from cantle.cli.prose import folded

#: What ``cantle --help`` lists, in the order an operator meets it: name, module, what it does.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("scan", "scan", "Show the accelerators of this machine, or of a saved dump."),
    ("serve", "serve", "Run Cantle on this machine: API, keeper and this host's agent."),
    ("agent", "agent", "This host's part by itself: run its agent, or restore its cards at boot."),
    ("config", "config", "Check a configuration before it is used."),
    ("host", "host", "Hosts with an agent."),
    ("device", "device", "Cards, as their hosts report them."),
    ("deployable", "deployable", "The parts of cards that are offered together."),
    ("capacity", "capacity", "What can be lent now, and what is lent."),
    ("pool", "pool", "Free PCI devices, counted."),
    ("profile", "profile", "Device profiles: flavors for devices."),
    ("flavor", "flavor", "Named sets of extra specs, accepted wherever a profile is."),
    ("explain", "explain", "What could serve a request now, and why the rest could not."),
    ("lease", "lease", "Borrow accelerators for a workload, and give them back."),
    ("who", "who", "Show who has a card, and what a guest has."),
    ("quota", "quota", "How much of a class a project may have at once."),
    ("usage", "usage", "Show unit-hours by project and class."),
    ("audit", "audit", "Who did what to which thing, and when."),
    ("arq", "arq", "Accelerator requests: one accelerator for one instance."),
    ("events", "event", "What Nova and the webhook were told; what happens now."),
    ("token", "token", "Who may call, where there is no Keystone."),
    ("placement", "placement", "What OpenStack Placement has of our devices."),
    ("cdi", "cdi", "Name this machine's cards for container engines."),
    ("libvirt", "libvirt", "Write this machine's cards for domains of libvirt."),
    ("completion", "completion", "Print a shell's script that completes this command."),
    ("explain-error", "explain_error", "What an error code means and what to do about it."),
)

#: What a write says when the file that standard output was sent to can take no more.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

#: Other names of commands; not listed.
ALIASES = {"inventory": "capacity"}


#: Commands that run until they are told to stop. Being told so while they are still loading is no failure either.
SERVICES = frozenset({"serve", "agent"})


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when that subcommand is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of ``cantle --help``, in our order."""
        return [name for name, _, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, from its module; None when there is none."""
        wanted = ALIASES.get(cmd_name, cmd_name)
        module = next((module for name, module, _ in COMMANDS if name == wanted), None)
        if module is None:
            return None
        name = wanted.replace("-", "_")
        command = getattr(importlib.import_module(f"cantle.cli.{module}"), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"cantle.cli.{module}.{name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(name, possibilities=[*self.list_commands(ctx), *ALIASES], ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands and options, without importing any command: a person waits for the key to do something."""
        named = [CompletionItem(name, help=about) for name, _, about in COMMANDS if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, _, about in COMMANDS])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", envvar="CANTLE_URL", metavar="URL", help="The server. [default: http://127.0.0.1:6666]")
@click.option(
    "--token-file",
    envvar="CANTLE_TOKEN_FILE",
    metavar="FILE",
    help="Holds the token. [default: what CANTLE_TOKEN says, or the file of CANTLE_TOKEN_FILE]",
)
@click.option(
    "--os-cloud",
    metavar="NAME",
    help="A cloud of clouds.yaml, whose Keystone says who you are. [default: what OS_CLOUD or OS_AUTH_URL says]",
)
@click.option(
    "--ca-file", envvar="CANTLE_CA_FILE", metavar="FILE", help="Certificates to trust. [default: the system's]"
)
@click.option("-v", "--verbose", is_flag=True, help="Tell each request on standard error.")
@click.version_option(__version__, prog_name="cantle", message="%(prog)s %(version)s")
def cantle(url: str | None, token_file: str | None, os_cloud: str | None, ca_file: str | None, verbose: bool) -> None:
    """Finds the accelerators of a private cloud, slices them, and lends the slices to guests.

    \b
    Examples:
      cantle scan
      cantle serve --simulate t4
      cantle capacity
      cantle lease create gold --workload vm1 --wait

    Exit codes and environment variables: docs/cli.md.
    """
    del url, token_file, os_cloud, ca_file, verbose  # read from the context by cantle.cli.client.connect


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the ``cantle`` command. Ends the process with one of ``ExitCode``."""
    words = list(sys.argv[1:] if args is None else args)
    if SERVICES.intersection(words):
        signal.signal(signal.SIGTERM, _end_at_once)  # until the service has its own handler
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a locale without a letter of a name is no reason to fail
    code = run(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_gone()
    except OSError as error:
        code = _output_failed(error)
    sys.exit(code)


def _end_at_once(_number: int, _frame: object) -> NoReturn:
    """A service that is told to stop before it has begun: nothing is there yet to be ended."""
    os._exit(ExitCode.OK)


def _open_closed_streams() -> None:
    """Where the caller closed a standard stream (``>&-``) Python has none, and whatever is opened next would get its number."""
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(opened, "r" if number == 0 else "w", encoding="utf-8"))


def run(args: Sequence[str], command: click.Command | None = None, *, name: str = "cantle") -> int:
    """Run one command line and return its exit code. A failure is one line on standard error, without a traceback.

    :param command: another command than ``cantle``, such as those of the services; ``name`` is what it is called.
    """
    try:
        outcome = (command or cantle).main(args=list(args), prog_name=name, standalone_mode=False)
        return outcome if isinstance(outcome, int) else ExitCode.OK
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit:  # click itself ends the process in two cases: completion is done, or the reader went away
        if "_CANTLE_COMPLETE" in os.environ:
            raise
        return _reader_gone()
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        return _output_failed(error) if error.errno in _NO_ROOM and error.filename is None else _explain(error)
    except Exception as error:  # noqa: BLE001 - the border of the program: nothing ends it with a traceback
        if os.environ.get("CANTLE_DEBUG"):
            import traceback  # noqa: PLC0415 - hardly ever needed

            traceback.print_exception(error)
        return _explain(error)


def _explain(error: Exception) -> int:
    """Say what went wrong and return the exit code for it."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
    if isinstance(error, click.ClickException):
        _complain(error.format_message(), "usage-error")
        return ExitCode.USAGE
    if isinstance(error, errors.CantleError):
        _complain(error.message, error.code)
        return exit_codes.of(error)
    _complain(
        f"This is a fault in Cantle, please report it: {type(error).__name__}: {error}. "
        "Run it again with CANTLE_DEBUG=1 to see where.",
        "internal-error",
    )
    return ExitCode.INTERNAL


def _complain(message: str, code: str) -> None:
    lines = "\n".join(map(safe, message.split("\n")))
    said = folded(f"cantle: error: {lines} [{safe(code)}]", sys.stderr)
    if _coloured():
        said = said.replace("error:", click.style("error:", fg="red", bold=True), 1)
    click.echo(said, err=True, color=_coloured())


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _output_failed(error: OSError) -> int:
    """The answer could not be written where it was sent (``> file``)."""
    _complain(
        f"The output cannot be written: {error.strerror}. Make room where it goes, or send it elsewhere.",
        "output-failed",
    )
    _discard_output()
    return ExitCode.FAILED


def _reader_gone() -> int:
    """Whoever read our output went away."""
    _discard_output()
    return ExitCode.BROKEN_PIPE


def _discard_output() -> None:
    """Point the stream at nothing, or Python complains once more while ending."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())


if __name__ == "__main__":
    main()
