"""Where configuration is: ini files and directories of them, read by oslo.config; what may be wrong with a file, said plainly."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from oslo_config import cfg

from cantle.errors import BadConfig

#: The environment variable that names other files than the usual: files or directories, separated by ':'.
VARIABLE = "CANTLE_CONFIG"

#: Read in this order, later files overriding earlier ones; either may be absent.
USUAL_FILE = "/etc/cantle/cantle.conf"
USUAL_DIRECTORY = "/etc/cantle/cantle.conf.d"


def usual_places(environment: Mapping[str, str] = os.environ) -> tuple[list[str], list[str]]:
    """The files and directories a service reads: those in ``CANTLE_CONFIG``, else the usual ones that are there.

    :raises BadConfig: ``config-file-missing`` for one named in the variable.
    """
    named = environment.get(VARIABLE, "")
    if not named:
        files = [USUAL_FILE] if os.path.exists(USUAL_FILE) else []
        return files, [USUAL_DIRECTORY] if os.path.isdir(USUAL_DIRECTORY) else []
    places = [place for place in named.split(":") if place]
    for place in places:
        if not os.path.exists(place):
            raise BadConfig(
                "config-file-missing",
                f"there is no configuration file {place} ({VARIABLE} names it); 'cantle config sample' prints one",
                files=[place],
            )
    return [place for place in places if not os.path.isdir(place)], [place for place in places if os.path.isdir(place)]


def read(files: Sequence[str], directories: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read files, then the ``*.conf`` of directories in the order of their names; later ones override earlier ones.

    :raises BadConfig: ``config-file-missing``, ``config-file-unreadable``, ``config-file-malformed``.
    """
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="cantle", default_config_files=list(files), default_config_dirs=list(directories))
    except cfg.ConfigFilesNotFoundError as error:
        missing = ", ".join(error.config_files)
        raise BadConfig(
            "config-file-missing",
            f"there is no configuration file {missing}; 'cantle config sample' prints one",
            files=error.config_files,
        ) from error
    except cfg.ConfigFilesPermissionDeniedError as error:
        forbidden = ", ".join(error.config_files)
        raise BadConfig(
            "config-file-unreadable",
            f"this user may not read the configuration file {forbidden}; change its owner or mode",
            files=error.config_files,
        ) from error
    except UnicodeDecodeError as error:
        raise BadConfig(
            "config-file-malformed",
            f"a configuration file among {', '.join([*files, *directories])} cannot be read: it is no text in UTF-8 ({error.reason}, "
            f"byte {error.start})",
        ) from error
    except (cfg.ConfigFileParseError, OSError) as error:
        raise BadConfig("config-file-malformed", f"a configuration file cannot be read: {error}") from error
    return conf
