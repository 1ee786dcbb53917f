# The agents' listener under gunicorn:
#   gunicorn --config /etc/cantle/gunicorn-agents.conf.py cantle.wsgi:agents
# One process: waiting agents cost a thread each, and hardly any processor time. Start more units on other ports for more.

bind = "127.0.0.1:6667"
workers = 1
worker_class = "gthread"

# [agents] waiting_places (100, one for each host) and a hundred more for reports, results and newcomers.
threads = 200

# Agents wait 60 to 90 s for work.
timeout = 120
graceful_timeout = 100
keepalive = 100

limit_request_line = 4094
limit_request_fields = 32

accesslog = None
errorlog = "-"
control_socket_disable = True


def post_fork(server, worker):  # noqa: ARG001 (gunicorn calls it so)
    """Read the configuration now, so that a wrong one stops the service at start and not at the first request.

    A worker has no handlers of its own yet: those of the master, which it inherits, would take a signal to end and do nothing. It would go
    on to serve, and be killed at `graceful_timeout` with what it is answering then.
    """
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

    from cantle.wsgi import agents

    agents.load_or_exit()


def post_worker_init(worker):  # noqa: ARG001 (gunicorn calls it so)
    """At SIGTERM, answer whoever waits for work at once: a worker ends after its last request, and agents wait for a minute."""
    import signal

    from cantle.wsgi import agents

    agents.end_waits(signal.SIGTERM)
