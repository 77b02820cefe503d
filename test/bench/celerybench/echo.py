"""Measures Celery with RabbitMQ in the way in which test/bench/full_test.go measures Troupe: a warm echo by 8 processes.

    ECHO_URL=amqp://guest:guest@127.0.0.1:5672/ ECHO_QUEUE=celery-echo python3 echo.py

Results are not stored (Troupe's are). The executions are loaded while nobody consumes, and the rate is theirs from the start of
the first to the end of the last, so that neither the publishing nor the start of the worker counts. The queue is its own and
is deleted at the end. The last line is "celery echo: RATE/s".
"""
import os
import subprocess
import sys
import tempfile
import time

import celery
import kombu

WARM, COUNT, PROCESSES = 500, int(os.environ.get("ECHO_COUNT", 10_000)), 8
LIMIT = 120  # seconds for anything to come

URL, QUEUE = os.environ["ECHO_URL"], os.environ["ECHO_QUEUE"]
FOLDER = os.environ.get("ECHO_FOLDER", "")  # main makes it for itself and the worker

app = celery.Celery("echo", broker=URL)
app.conf.update(
    task_ignore_result=True, task_default_queue=QUEUE, worker_send_task_events=False, worker_enable_remote_control=True,
    broker_connection_retry=False)


def note(name):
    """Write down the time at which something was reached."""
    path = os.path.join(FOLDER, name)
    with open(path + ".new", "w") as f:
        f.write(repr(time.time()))
    os.rename(path + ".new", path)


def noted(name):
    """Wait for what note writes."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            with open(os.path.join(FOLDER, name)) as f:
                return float(f.read())
        except FileNotFoundError:
            time.sleep(0.01)
    raise SystemExit("%s did not come within %d s" % (name, LIMIT))


@app.task(name="echo")
def echo(params, number, last):
    if number == 0:
        note("first%d" % last)
    if number == last:
        note("last%d" % last)
    return params


def load(count):
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection)
        for n in range(count):
            echo.apply_async(({"text": "hello"}, n, count - 1), producer=producer)


def main():
    global FOLDER
    with tempfile.TemporaryDirectory(prefix="celery-") as FOLDER:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "echo", "worker", "-c", str(PROCESSES), "-l", "ERROR", "--without-gossip",
             "--without-mingle", "--without-heartbeat"],
            cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.DEVNULL,
            env=dict(os.environ, ECHO_FOLDER=FOLDER, PYTHONDONTWRITEBYTECODE="1"))
        try:
            load(WARM)
            noted("last%d" % (WARM - 1))
            app.control.cancel_consumer(QUEUE, reply=True, timeout=LIMIT, limit=1)
            load(COUNT)
            app.control.add_consumer(QUEUE, reply=True, timeout=LIMIT, limit=1)
            took = noted("last%d" % (COUNT - 1)) - noted("first%d" % (COUNT - 1))
            print("celery echo: %d/s" % (COUNT / took))
        finally:
            worker.terminate()
            worker.wait(LIMIT)
            with app.connection_for_write() as connection:
                kombu.Queue(QUEUE, channel=connection.default_channel).delete()


if __name__ == "__main__":
    main()
