"""A stand-in for the server of Weights & Biases on the loopback interface, with faults that a test can switch on.

It serves the real client: runs online and resumed, files, media, artifacts, and what `wandb.Api` reads. It keeps all
that it was sent. What it cannot show: how the real server treats a run (crashed after lost heartbeats, permissions,
limits).

    with WandbServer() as server:
        command(env={**os.environ, **server.env()})
        server.runs["RUN_ID"].history
"""

import base64
import gzip
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest
import wandb

KEY, TIME = "0123456789" * 4, "2026-01-01T00:00:00Z"


@dataclass
class Run:
    """What the server knows of one run. `files`: name -> content. `events`: system metrics.

    `sessions`: times opened.
    """

    name: str
    project: str
    fields: dict[str, Any] = field(default_factory=dict)  # displayName, groupName, jobType, tags, notes, commit, ...
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    state: str = "running"
    exit_code: int | None = None
    sessions: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as the user gave it."""
        return {key: part["value"] for key, part in self.config.items() if not key.startswith("_")}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The logged epochs, without what W&B adds."""
        own = [{key: value for key, value in row.items() if not key.startswith("_")} for row in self.history]
        return [row for row in own if "epoch" in row]


@dataclass
class Artifact:
    """An artifact. `files`: name -> content."""

    name: str
    type: str
    digest: str
    aliases: list[str]
    metadata: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    committed: bool = False


class WandbServer:
    """The server. `fault` may be set at any time; with `after`, it begins after so many further requests.

    Faults: "hang", no request is answered and connections stay open; "500", every request fails; "die", connections are
    closed and new ones refused.

    A subclass adds operations of GraphQL as methods `op_NAME(variables) -> data`.
    """

    def __init__(self, *, fault: str = "none", after: int = 0, key: str = KEY) -> None:
        self.entity, self.key, self.lock = "tester", key, threading.RLock()
        self.fault, self.after = fault, after
        self.runs: dict[str, Run] = {}
        self.artifacts: dict[str, Artifact] = {}
        self.calls: Counter[str] = Counter()
        self.unknown: list[str] = []
        self.stopped, self.mended = threading.Event(), threading.Event()
        self.http = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def env(self) -> dict[str, str]:
        """The environment of a user of this server."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": self.key, "WANDB_MODE": "online"}

    @contextmanager
    def used_here(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Self]:
        """Run the server with this process as its user. wandb forgets the settings that an earlier test made it
        read.
        """
        for name, value in self.env().items():
            monkeypatch.setenv(name, value)
        wandb.teardown()
        with self:
            yield self

    def mend(self) -> None:
        """End a fault that no connection has died of. Requests that hang get their answers."""
        self.fault = "none"
        self.mended.set()

    def die(self) -> None:
        """Close the port. Requests that wait for an answer get none."""
        if not self.stopped.is_set():
            self.stopped.set()
            threading.Thread(target=self.http.shutdown, daemon=True).start()
            self.http.server_close()

    def broken(self) -> int:
        """The status with which a fault answers this request; 0 where it does not, -1 to close the connection."""
        with self.lock:
            if self.after > 0:
                self.after -= 1
                return 0
        fault = self.fault
        if fault == "hang":
            while not self.stopped.wait(0.1) and not self.mended.is_set():
                pass
            return -1 if self.stopped.is_set() else 0
        if fault == "die" or self.stopped.is_set():
            self.die()
            return -1
        return 500 if fault == "500" else 0

    def graphql(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of GraphQL."""
        name = body.get("operationName") or re.search(r"(?:query|mutation)\s+(\w+)", body["query"])[1]
        with self.lock:
            self.calls[name] += 1
            operation = getattr(self, f"op_{name}", None)
            if operation is None:
                self.unknown.append(name)
                return {"data": None, "errors": [{"message": f"stand-in: no operation {name}"}]}
            return {"data": operation(body.get("variables") or {})}

    def file_stream(self, name: str, body: dict[str, Any]) -> None:
        """Take rows of a run's history and of its system metrics, its summary and its end."""
        run = self.runs[name]
        for file, part in (body.get("files") or {}).items():
            lines, offset = part.get("content") or [], part.get("offset", 0)
            if file == "wandb-history.jsonl":
                run.history[offset:] = map(json.loads, lines)
            elif file == "wandb-events.jsonl":
                run.events[offset:] = map(json.loads, lines)
            elif file == "wandb-summary.json":
                run.summary = json.loads(lines[-1])
        if body.get("complete"):
            run.exit_code = body.get("exitcode") or 0
            run.state = "failed" if run.exit_code else "finished"

    def put(self, path: str, body: bytes) -> None:
        """Keep an uploaded file."""
        _, kind, owner, name = path.split("/", 3)
        if kind == "run":
            self.runs[owner].files[name] = body
        else:
            self.artifacts[owner].files[name] = body

    # Facts about the server and its user

    def op_Viewer(self, _: dict[str, Any]) -> dict[str, Any]:
        user = {"id": "u", "entity": self.entity, "username": self.entity, "name": self.entity, "email": "a@b.c"}
        others = {"admin": False, "flags": "{}", "deletedAt": None, **_edges("teams"), **_edges("apiKeys")}
        return {"viewer": {**user, **others}}

    op_GetViewer = op_GetDefaultEntity = op_Viewer

    def op_ServerInfo(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"cliVersionInfo": '{"max_cli_version": "99"}', "latestLocalVersionInfo": None}}

    def op_ServerFeaturesQuery(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def op_OrgFeatureFlags(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"organization": {"featureFlags": []}}

    # Runs, written

    def project(self, name: str) -> dict[str, Any]:
        """A project as GraphQL gives it."""
        return {"id": _id(name), "internalId": _id(name), "name": name, "entity": {"id": "e", "name": self.entity}}

    def op_RunResumeStatus(self, v: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(v["name"])
        return {"model": {**self.project(v["project"]), "bucket": run and _resume_status(run)}}

    def op_UpsertBucket(self, v: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.setdefault(v["name"], Run(v["name"], v.get("project") or "uncategorized"))
        run.fields |= {key: v[key] for key in FIELDS if v.get(key)}
        run.config |= json.loads(v.get("config") or "{}")
        run.summary |= json.loads(v.get("summaryMetrics") or "{}")
        inserted, run.sessions, run.state = run.sessions == 0, run.sessions + 1, "running"
        bucket = {"sweepName": v.get("sweep"), "description": "", "project": self.project(run.project)}
        return {"upsertBucket": {"inserted": inserted, "bucket": _described(run) | bucket}}

    def op_RunStoppedStatus(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"run": {"stopped": True}}}  # a click on "stop" interrupts no sweep

    def op_CreateRunFiles(self, v: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.url}/run/{v['run']}/{name}"} for name in v["files"]]
        return {"createRunFiles": {"runID": _id(v["run"]), "uploadHeaders": [], "files": files}}

    # Artifacts: one with the same name and digest is the same version

    def op_ArtifactType(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def op_CreateArtifact(self, v: dict[str, Any]) -> dict[str, Any]:
        given = v["input"]
        name = given["artifactCollectionName"]
        found, metadata = f"{name}-{given['digest']}", json.loads(given.get("metadata") or "{}")
        new = Artifact(name, given["artifactTypeName"], given["digest"], [], metadata)
        artifact = self.artifacts.setdefault(found, new)
        artifact.aliases = sorted({*artifact.aliases, *(alias["alias"] for alias in given.get("aliases") or [])})
        state = "COMMITTED" if artifact.committed else "PENDING"
        answer = {"id": found, "state": state, "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": answer}}

    def op_CreateArtifactManifest(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"createArtifactManifest": {"artifactManifest": self._manifest(v["artifactID"])}}

    def op_UpdateArtifactManifest(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"updateArtifactManifest": {"artifactManifest": self._manifest(v["artifactManifestID"])}}

    def _manifest(self, artifact: str) -> dict[str, Any]:
        file = {"id": "f", "uploadUrl": f"{self.url}/artifact/{artifact}/.manifest", "uploadHeaders": []}
        return {"id": artifact, "file": file}

    def op_CreateArtifactFiles(self, v: dict[str, Any]) -> dict[str, Any]:
        edges = []
        for file in (v.get("input") or v)["artifactFiles"]:
            name, artifact = file["name"], file["artifactID"]
            node = {"storagePath": name, "uploadUrl": f"{self.url}/artifact/{artifact}/{name}", "uploadHeaders": []}
            edges.append({"node": {**node, "uploadMultipartUrls": None, "artifact": {"id": artifact}}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def op_CommitArtifact(self, v: dict[str, Any]) -> dict[str, Any]:
        artifact = self.artifacts[v["artifactID"]]
        artifact.committed = True
        return {"commitArtifact": {"artifact": {"id": v["artifactID"], "digest": artifact.digest}}}

    def op_ArtifactByID(self, v: dict[str, Any]) -> dict[str, Any]:
        found = self.artifacts[v["id"]]
        names = {"id": found.name, "name": found.name, "__typename": "ArtifactSequence"}
        sequence = {**names, "project": self.project("p")}
        times = {"createdAt": TIME, "updatedAt": None, "ttlDurationSeconds": -2, "ttlIsInherited": True}
        texts = {"description": None, "metadata": json.dumps(found.metadata), "digest": found.digest, "commitHash": "c"}
        counts = {"versionIndex": 0, "size": 1, "fileCount": len(found.files), "historyStep": None, "tags": []}
        kind = {"artifactType": {"name": found.type}, "state": "COMMITTED", "aliases": [], "__typename": "Artifact"}
        return {"artifact": {"id": v["id"], "artifactSequence": sequence, **times, **texts, **counts, **kind}}

    # Runs, read by wandb.Api

    def op_Runs(self, v: dict[str, Any]) -> dict[str, Any]:
        found = [run for run in self.runs.values() if run.project == v.get("project")]
        page = {"pageInfo": {"endCursor": None, "hasNextPage": False}}
        runs = {"edges": [{"node": _node(run), "cursor": "c"} for run in found], **page}
        project = {"internalId": "1", "runCount": len(found), "readOnly": False, "runs": runs}
        return {"project": project if found else None}

    def op_Run(self, v: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(v["name"])
        return {"project": {"internalId": "1", "run": run and _node(run)}}

    def op_RunFullHistory(self, v: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[v.get("run") or v["name"]]
        rows = {"history": [json.dumps(row) for row in run.history], "events": [json.dumps(row) for row in run.events]}
        return {"project": {"run": rows}}

    def op_RunSampledHistory(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"run": {"sampledHistory": [self.runs[v.get("run") or v["name"]].history]}}}


FIELDS = ("displayName", "groupName", "jobType", "tags", "notes", "commit", "repo", "host", "program", "sweep")


def _id(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _edges(name: str) -> dict[str, Any]:
    return {name: {"edges": []}}


def _described(run: Run) -> dict[str, Any]:
    """What every answer about a run holds."""
    texts = {name: run.fields.get(name) for name in ("displayName", "notes")} | {"tags": run.fields.get("tags") or []}
    contents = {"summaryMetrics": json.dumps(run.summary), "config": json.dumps(run.config)}
    return {"id": _id(run.name), "name": run.name, "historyLineCount": len(run.history), **texts, **contents}


def _resume_status(run: Run) -> dict[str, Any]:
    last = {"history": run.history[-1:], "events": run.events[-1:]}
    tails = {f"{kind}Tail": json.dumps([*map(json.dumps, rows)]) for kind, rows in last.items()}
    counts = {"logLineCount": 0, "eventsLineCount": len(run.events)}
    return {**_described(run), **counts, **tails, "wandbConfig": '{"t": 1}'}


def _node(run: Run) -> dict[str, Any]:
    """A run as `wandb.Api` reads it."""
    fields = {key: run.fields.get(name) for key, name in NODE_FIELDS.items()}
    times = dict.fromkeys(("createdAt", "heartbeatAt"), TIME)
    others = {"systemMetrics": "{}", "description": "", "readOnly": False, "projectId": "1", "state": run.state}
    history = {"historyKeys": {"lastStep": len(run.history), "keys": {}}}
    return {**_described(run), **fields, **times, **others, **history, "user": {"name": "tester", "username": "tester"}}


NODE_FIELDS = {"group": "groupName", "jobType": "jobType", "commit": "commit", "sweepName": "sweep"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is no error."""


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.refused():
                return
            path = self.path.split("?")[0].rstrip("/")
            if path.endswith("/graphql"):
                return self.answer(server.graphql(json.loads(body)))
            with server.lock:
                server.calls[path.rpartition("/")[2]] += 1
                if path.endswith("/file_stream"):
                    server.file_stream(path.split("/")[-2], json.loads(body))
            return self.answer({"exitcode": None, "limits": {}})

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.refused():
                with server.lock:
                    server.calls["PUT"] += 1
                    server.put(self.path, body)
                self.answer(b"")

        def do_GET(self) -> None:
            if not self.refused():
                server.calls["GET"] += 1
                parts = self.path.split("?")[0].split("/", 5)  # /files/ENTITY/PROJECT/RUN/NAME
                run = server.runs.get(parts[4]) if len(parts) > 5 else None
                self.answer(run.files.get(parts[5], b"{}") if run else b"{}")

        def refused(self) -> bool:
            """Whether a fault, or a wrong key, has answered the request."""
            status = server.broken()
            scheme, _, given = self.headers.get("Authorization", "").partition(" ")
            given = base64.b64decode(given).decode().partition(":")[2] if scheme == "Basic" else given
            if not status and given != server.key and re.search("/graphql|/file_stream", self.path):
                status = 401
            if status < 0:
                self.close_connection = True
            elif status:
                message = "user is not logged in" if status == 401 else "stand-in: a fault"
                self.answer({"data": None, "errors": [{"message": message}]}, status)
            return status != 0

        def answer(self, value: Any, status: int = 200) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
