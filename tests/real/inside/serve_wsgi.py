"""``serve_wsgi.py PORT[:THREADS] MODULE [ARG...]``: serve MODULE's ``application`` on 127.0.0.1 with waitress.

Keystone's WSGI module reads ``sys.argv`` when it is imported, as if it had been started by itself; so that is set first. One thread
unless more are asked for: SQLite has one writer, and two requests that read before they write would lock each other out.
"""

from __future__ import annotations

import importlib
import sys

port, _, threads = sys.argv[1].partition(":")
module = sys.argv[2]
sys.argv = [module, *sys.argv[3:]]
application = importlib.import_module(module).application

importlib.import_module("waitress").serve(
    application, host="127.0.0.1", port=int(port), threads=int(threads or 1), ident=None
)
