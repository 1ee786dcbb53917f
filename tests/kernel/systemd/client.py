"""A client that asks again and again while the API is restarted or reloaded; prints what it was answered. Standard library only.

client.py VERB TOKEN: each request on a connection of its own, as behind a proxy; one more waits for what does not come (``?wait=``).
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections import Counter


def ask(path: str, token: str) -> str:
    """The status of an answer, or what came in its place."""
    connection = http.client.HTTPConnection("127.0.0.1", 6666, timeout=100)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()
    return str(response.status)


def main() -> None:
    """Ask until systemctl is done, and a little on."""
    verb, token, waits = sys.argv[1:]
    answers: Counter[str] = Counter()
    waited: list[str] = []
    done = threading.Event()

    def load() -> None:
        while not done.is_set():
            answers[ask("/v2/device_profiles", token)] += 1

    askers = [threading.Thread(target=load) for _ in range(3)]
    waiter = threading.Thread(target=lambda: waited.append(ask(waits, token)))
    for thread in (*askers, waiter):
        thread.start()
    while sum(answers.values()) < 10:
        done.wait(0.1)
    ran = subprocess.run(["systemctl", verb, "cantle-api.service"], check=False)
    before = sum(answers.values())
    while sum(answers.values()) < before + 10:
        done.wait(0.1)
    done.set()
    for thread in (*askers, waiter):
        thread.join()
    print(json.dumps({"status": ran.returncode, "answers": answers, "waited": waited}))


if __name__ == "__main__":
    main()
