"""The engine of a Ray cluster: a worker is an actor, with a GPU or a CPU slot of a node. It ends with the driver."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, ActorUnschedulableError, GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from experiments.cli import INTERRUPTS
from experiments.data.class_folders import MOST_PIXELS
from experiments.errors import UserError, say
from experiments.locks import DRIVER_LOCK
from experiments.study import RunSpec
from sweeps.engines.contract import Event, Failed, Slot, Task
from sweeps.engines.ray_actor import Actor, Expected, Proof, versions
from sweeps.engines.training import DOWNLOAD, failure
from vit.plugins import VARIABLE

Place = tuple[str, int]  # a node, and the number of a worker there
CONNECT_SECONDS = 60.0  # that a cluster has to answer
ASK_SECONDS = 2.0  # after which the head is asked for the nodes again
LOST_SECONDS = 20.0  # without its answer, after which the head is lost; after 60 Ray ends this process without a word
DEATH_SECONDS = 60.0  # that an actor has to end, on a node that is lost too
DEATHS = 3  # of actors at their start, one after another, after which a node gets none
SAID_AFTER = 10.0  # seconds without an answer, or without a worker, that pass in silence
FOLDER = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp") / "ray"  # of Ray on this machine
NOTE = FOLDER / "ray_current_cluster"  # where `ray start` writes the address; the documentation of `ray.init` names it
LISTENS = "0A"  # of a socket, in the tables of /proc/net
TOKEN = Path.home() / ".ray" / "auth_token"
# A process of its own asks the cluster, because Ray may wait without end, also at a port where nothing listens.
ASK = """
import ray, socket, sys
host, _, port = sys.argv[1].rpartition(":")
try:
    socket.create_connection((host.strip("[]"), int(port))).close()
    ray.init(sys.argv[1], log_to_driver=False)
except Exception as error:
    sys.exit(" ".join(str(error).split()))
"""


class RayEngine:
    """Workers on the nodes of a Ray cluster, which may join and leave. See `contract.Engine`.

    An actor that starts is a candidate, until it has proved that its node can train.
    """

    def __init__(self, address: str, device: str, workers: int | None) -> None:
        if device not in ("auto", "cpu", "cuda"):
            raise UserError(f"--device: {device!r} is not allowed with --ray; allowed: auto, cpu, cuda")
        self.address = _connect(address)
        self.nodes, self.answered = ray.nodes(), time.monotonic()
        threading.Thread(target=self._ask_head, daemon=True).start()
        gpus = sum(int(node["Resources"].get("GPU", 0)) for node in self.nodes if node["Alive"])
        self.on_gpu = device == "cuda" or (device == "auto" and gpus > 0)
        self.limit: float = workers or math.inf
        self.on_each = math.ceil(workers / gpus) if self.on_gpu and workers and gpus else 1  # workers on a GPU
        self.slot = Slot("cuda:0", memory_share=1 / self.on_each) if self.on_gpu else Slot("cpu", 1)
        self.where = f"the {'GPUs' if self.on_gpu else 'CPUs'} of the Ray cluster {self.address}"
        self.say: Callable[[str], None] = partial(say, error=True)
        self.workers: list[RayWorker] = []
        self.ready: list[RayWorker] = []
        self.candidates: list[RayWorker] = []
        self.stopped: set[Place] = set()  # that get no other worker
        self.refused: set[str] = set()  # nodes that get no worker
        self.deaths = Counter[str]()
        self.hardware = ""
        self.since, self.waits = time.monotonic(), False  # without a worker; whether that was said

    @property
    def room(self) -> int:
        return len(self.ready)

    @property
    def places(self) -> int:
        return int(min(self.limit, len(self._places())))

    def _places(self) -> list[Place]:
        """All places, the first of each node first."""
        resource = "GPU" if self.on_gpu else "CPU"
        sizes = {n["NodeID"]: int(n["Resources"].get(resource, 0)) * self.on_each for n in self.nodes if n["Alive"]}
        places = [(node, i) for node, size in sizes.items() if node not in self.refused for i in range(size)]
        return sorted({*places} - self.stopped, key=lambda place: place[1])

    def begin(self, task: Task) -> None:
        self._end_all()
        self.since = time.monotonic()
        self.task = replace(task, folder=task.folder.absolute(), log=task.log.absolute())
        path = self.task.log.with_name(DRIVER_LOCK)
        lock = path.read_text(encoding="utf-8") if path.exists() else None
        self.expected = Expected(Path.cwd(), sys.argv, versions(), path, lock)
        self._launch()

    def _launch(self) -> None:
        """Start candidates in free places, as far as there is work."""
        taken = {worker.place for worker in self._all()}
        count = min(self.limit, self.task.most) - len(taken)
        free = [place for place in self._places() if place not in taken]
        for place in [place for i, place in enumerate(free) if i < count]:
            self._start_candidate(place)

    def start(self) -> RayWorker | None:
        if not self.ready:
            return None
        self.workers.append(self.ready.pop(0))
        return self.workers[-1]

    def events(self, seconds: float) -> list[tuple[RayWorker, Event]]:
        self.check_head()
        self._launch()
        self._say_waiting()
        streams: dict[Any, RayWorker] = {worker.streams[0]: worker for worker in self._all() if worker.streams}
        if not streams:
            time.sleep(seconds)
            return []
        ray.wait(list(streams), timeout=seconds)
        told, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0)
        received = [(worker, worker.receive()) for worker in map(streams.__getitem__, told)]
        return [(worker, event) for worker, event in received if event]

    def _start_candidate(self, place: Place) -> None:
        """Start a candidate in a thread of its own, which waits for the head: where it is lost, for a minute."""
        thread = threading.Thread(target=lambda: self.candidates.append(RayWorker(self, place)), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(1.0)
            self.check_head()

    def check_head(self) -> None:
        """Raise `UserError` where the head is lost. Without it no actor can be started or ended."""
        if time.monotonic() - self.answered > LOST_SECONDS:
            raise UserError(
                f"the head of the Ray cluster {self.address} does not answer; once there is a cluster, run the same "
                "command again to resume"
            )

    def _say_waiting(self) -> None:
        """Say once for what the engine waits, while no worker is there."""
        if self.workers or self.ready:
            self.since, self.waits = time.monotonic(), False
        elif not self.waits and time.monotonic() - self.since > SAID_AFTER:
            self.waits = True
            self.say(f"waiting for a free {'GPU' if self.on_gpu else 'CPU'} of the Ray cluster {self.address}")

    def admit(self, worker: RayWorker, proof: Proof) -> None:
        """Take a candidate as a worker, or refuse its node."""
        if proof.problem:
            self.give_up(worker, proof.problem, at_once=True)
            return
        self.candidates.remove(worker)
        self.ready.append(worker)
        self.deaths.pop(worker.place[0], None)
        worker.name = proof.name
        if self.hardware not in ("", proof.hardware):
            both = f"{proof.hardware}, others {self.hardware}"
            self.say(f"{worker.name} has {both}: a comparison is confounded with the device")
        self.hardware = self.hardware or proof.hardware

    def give_up(self, worker: RayWorker, problem: str, at_once: bool) -> None:
        """Give up a candidate, and at once or after some deaths its node. `problem`: why; "" if the node has left.

        Raises `UserError` where no other node may train.
        """
        self.candidates.remove(worker)
        ray.kill(worker.actor)
        node = worker.place[0]
        self.deaths[node] += 1
        if node in self.refused or not (at_once or self.deaths[node] == DEATHS):
            return
        self.refused.add(node)
        if problem:
            address = next(n["NodeManagerAddress"] for n in self.nodes if n["NodeID"] == node)
            line = f"node {address} gets no worker: {problem}"
            if not self.places and not self.workers:
                raise UserError(line)
            self.say(line)

    def _all(self) -> list[RayWorker]:
        return [*self.workers, *self.ready, *self.candidates]

    def _end_all(self) -> None:
        every = self._all()
        self.workers, self.ready, self.candidates = [], [], []
        for worker in every:
            ray.kill(worker.actor)
        for worker in every:
            worker.wait_for_death()

    def _ask_head(self) -> None:
        """Keep the list of nodes. Where the head is lost, the question has no end."""
        with contextlib.suppress(Exception):  # this process disconnects
            while ray.is_initialized():
                self.nodes, self.answered = ray.nodes(), time.monotonic()
                time.sleep(ASK_SECONDS)

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(UserError):  # the head is lost: its nodes end a minute after it
            self.check_head()
            self._end_all()
        if kind is None:  # else this process ends, and Ray with it: its `shutdown` drops the handler of SIGTERM
            ray.shutdown()


class RayWorker:
    """This process's end of an actor. See `contract.Worker`. `streams`: what it does, and then has to do."""

    def __init__(self, engine: RayEngine, place: Place) -> None:
        self.engine, self.place, self.name = engine, place, "worker"
        share: dict[str, Any] = {"num_cpus": 0, "num_gpus": 1 / engine.on_each} if engine.on_gpu else {"num_cpus": 1}
        affinity = NodeAffinitySchedulingStrategy(place[0], soft=False)
        make: Any = ray.remote  # its types do not know concurrency groups
        groups = {"work": 1, "answer": 1}  # of one thread each
        actor = make(max_restarts=0, concurrency_groups=groups, scheduling_strategy=affinity, **share)(Actor)
        self.actor = actor.remote(engine.task, engine.slot, engine.expected)
        self.streams: deque[Any] = deque([self.actor.prove.remote()])

    def train(self, runs: Sequence[RunSpec]) -> None:
        self.streams.append(self.actor.train.remote(list(runs)))

    def answer(self, prune: bool) -> None:
        self.actor.answer.remote(prune)

    def receive(self) -> Event | None:
        """The next event; `Failed` where the actor is dead or out of reach; None if it was not one for the driver."""
        try:
            told: Event | Proof = ray.get(next(self.streams[0]))
        except StopIteration:
            self.streams.popleft()
            return None
        except ActorUnschedulableError:
            self.engine.give_up(self, "", at_once=True)
            return None
        except RayError as error:
            reason = failure(error).reason
            if isinstance(error, RayActorError):
                reason = f"the worker died or its node is lost ({self.name})"
            if self not in self.engine.candidates:
                return Failed(reason)
            self.engine.give_up(self, reason, at_once=False)
            return None
        if isinstance(told, Proof):
            self.engine.admit(self, told)
            return None
        return told

    def stop(self, seconds: float = 0.0, replace: bool = True) -> None:
        """See `Worker`. What it has told is written, so it is killed at once."""
        ray.kill(self.actor)
        self.wait_for_death()
        self.engine.workers.remove(self)
        if not replace:
            self.engine.stopped.add(self.place)

    def wait_for_death(self) -> None:
        """Wait until the actor, which was killed, is dead."""
        end = time.monotonic() + DEATH_SECONDS
        while time.monotonic() < end:
            self.engine.check_head()
            try:
                ray.get(self.actor.__ray_ready__.remote(), timeout=1.0)
            except (GetTimeoutError, ActorUnavailableError):
                pass
            except RayError:
                return
            time.sleep(0.02)


def _connect(flag: str) -> str:
    """Connect this process to the cluster of `--ray`; for `auto`, a line says which it is. Returns its address.

    Raises `UserError` where a cluster cannot be used, or does not answer in time.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    handlers = {number: signal.getsignal(number) for name in INTERRUPTS if (number := getattr(signal, name, None))}
    address, source = _named(flag)
    if address and (problem := _problem(address, source)):
        if source != str(NOTE) or not problem.endswith("Connection refused"):
            raise UserError(f"{source}: no Ray cluster can be used at {address}: {problem}")
        address, source = "", f"{source} names {address}, where none answers"
    here: dict[str, Any] = {} if address else _new_cluster()
    passed = {name: os.environ.get(name, "") for name in (VARIABLE, MOST_PIXELS, DOWNLOAD)}
    variables = {"PYTHONSAFEPATH": "1", **passed}
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))
    environment = {"env_vars": variables}
    options = {"runtime_env": environment, "log_to_driver": False, "logging_level": logging.CRITICAL, **here}
    try:
        with contextlib.chdir(os.sep):  # Ray puts the current folder first in the search path of its workers
            ray.init(address or "local", **options)
    except Exception as error:  # of many kinds: a busy machine does not start or answer in time
        where = (
            f"{source}: no Ray cluster can be used at {address}" if address else "--ray: no Ray cluster can be started"
        )
        raise UserError(f"{where}: {failure(error).reason}") from error
    for number, handler in handlers.items():  # Ray replaces that of SIGTERM
        signal.signal(number, handler)
    address = str(ray.get_runtime_context().gcs_address)
    if flag == "auto":
        say(f"--ray auto: {'a new' if here else 'the'} Ray cluster {address} ({source})", error=True)
    return address


def _named(flag: str) -> tuple[str, str]:
    """The address of the cluster to use, "" for a new one; and what names it."""
    address, source = (os.environ.get("RAY_ADDRESS", ""), "RAY_ADDRESS") if flag == "auto" else (flag, "--ray")
    if not address and flag == "auto":
        if not NOTE.exists() or NOTE.stat().st_uid != os.getuid():
            return "", f"there is no RAY_ADDRESS, and no {NOTE} of this user"
        address, source = NOTE.read_text(encoding="utf-8").strip(), str(NOTE)
        if _is_of_another_user(address):
            return "", f"{source} names {address}, where another user listens"
    if not re.fullmatch(r"[^\s:/]+:\d+|\[[^\s/]+\]:\d+", address):
        raise UserError(f"{source}: {address!r} is not allowed: expected {'auto or ' * (flag != 'auto')}HOST:PORT")
    return address, source


def _is_of_another_user(address: str) -> bool:
    """Whether only other users listen at this address of this machine; False where the kernel does not tell."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, ValueError):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as here:
            here.bind((host.strip("[]"), 0))  # refused for an address of another machine
        tables = (Path("/proc/net", name).read_text(encoding="utf-8") for name in ("tcp", "tcp6"))
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        users = {int(row[7]) for row in rows if row[3] == LISTENS and row[1].endswith(f":{int(port):04X}")}
        return bool(users) and os.getuid() not in users
    return False


def _problem(address: str, source: str) -> str:
    """Why a cluster cannot be used; "" if it answers."""
    line = f"waiting for an answer of the Ray cluster {address} ({source})"
    timer = threading.Timer(SAID_AFTER, say, [line], {"error": True})
    timer.start()
    try:
        problem = _ask(address)
        if not problem and os.environ.get("RAY_AUTH_MODE", "").lower() == "token":  # its workers would die at once
            return "" if _ask(address, RAY_AUTH_MODE="disabled") else "it has no token; unset RAY_AUTH_MODE"
    except subprocess.TimeoutExpired:
        return f"it did not answer in {CONNECT_SECONDS:.0f} s"
    finally:
        timer.cancel()
    return problem


def _ask(address: str, **variables: str) -> str:
    """Why a cluster cannot be used; "" if it answers. Raises `TimeoutExpired`."""
    command, environment = [sys.executable, "-P", "-c", ASK, address], {**os.environ, **variables}
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CONNECT_SECONDS)
    if asked.returncode and "InvalidAuthToken" in asked.stderr:
        return f"it needs the token of its head in {TOKEN}, and RAY_AUTH_MODE=token"
    return (asked.stderr.strip().split("\n")[-1] or "Ray ended") if asked.returncode else ""


def _new_cluster() -> dict[str, Any]:
    """The arguments of `ray.init` for a new cluster. Makes the token as Ray would, but readable by its user only."""
    if FOLDER.exists() and not os.access(FOLDER, os.W_OK | os.X_OK):
        raise UserError(f"--ray: {FOLDER} belongs to {FOLDER.owner()}; set RAY_TMPDIR to a folder with a short path")
    has_token = TOKEN.exists() or {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {*os.environ}
    if os.environ.get("RAY_AUTH_MODE", "token").lower() == "token" and not has_token:
        TOKEN.parent.mkdir(mode=0o700, exist_ok=True)
        TOKEN.touch(mode=0o600, exist_ok=False)
        TOKEN.write_text(secrets.token_hex(32), encoding="utf-8")
        say(f"made {TOKEN}, which `ray start` of this user needs from now on", error=True)
    return {"include_dashboard": False, "object_store_memory": 100 * 2**20}  # bytes; only rows pass through it
