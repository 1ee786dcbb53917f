# The clients' API under gunicorn:
#   gunicorn --config /etc/cantle/gunicorn-api.conf.py cantle.wsgi:application
# Behind nginx (nginx.conf beside this file), which ends TLS and buffers slow clients.

import multiprocessing

bind = "127.0.0.1:6666"

# On PostgreSQL or MariaDB, workers scale over processors. On SQLite keep ONE worker: the file has one writer at a time.
workers = min(4, multiprocessing.cpu_count())
worker_class = "gthread"

# More than [api] waiting_places (8): each waiting request holds a thread.
threads = 24

# A wait may take [api] longest_wait (90 s); gthread workers answer the master meanwhile, so this only catches a stuck process.
timeout = 120
graceful_timeout = 100
keepalive = 75

# Header limits. Bodies are limited by [api] max_body_bytes, and before that by nginx.
limit_request_line = 8190
limit_request_fields = 64
limit_request_field_size = 32768

accesslog = None  # the service logs each request itself, with its id
errorlog = "-"

# Take nobody's word for where a request comes from; Cantle has its own option for that, [api] trust_forwarded_headers.
forwarded_allow_ips = "127.0.0.1"
control_socket_disable = True


def post_fork(server, worker):  # noqa: ARG001 (gunicorn calls it so)
    """Read the configuration now, so that a wrong one stops the service at start and not at the first request.

    A worker has no handlers of its own yet: those of the master, which it inherits, would take a signal to end and do nothing. It would go
    on to serve, and be killed at `graceful_timeout` with what it is answering then.
    """
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

    from cantle.wsgi import application

    application.load_or_exit()


def post_worker_init(worker):  # noqa: ARG001 (gunicorn calls it so)
    """At SIGTERM, answer whoever waits (?wait=) at once: a worker ends after its last request, and some wait for a minute."""
    import signal

    from cantle.wsgi import application

    application.end_waits(signal.SIGTERM)
