"""``peer_wsgi.py PORT MODULE [ARG...]``: serve MODULE's ``application`` on 127.0.0.1 with waitress, in the Python of `bench.peer`.

The applications read ``sys.argv`` when they are imported, as if each had been started by itself; so that is set first.
"""

from __future__ import annotations

import importlib
import sys

port, module = int(sys.argv[1]), sys.argv[2]
sys.argv = [module, *sys.argv[3:]]
application = importlib.import_module(module).application

importlib.import_module("waitress").serve(application, host="127.0.0.1", port=port, threads=16, ident=None)
