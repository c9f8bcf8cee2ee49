"""Start `wandb agent` and the commands of this project as a user does, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"vit-train": "experiments.main", "vit-sweep": "sweeps.main", "vit-report": "analysis.main"}


class Shell:
    """A shell in a folder, with the commands of this checkout on its PATH. `environment`: more variables."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for name, module in COMMANDS.items():
            code = f"if __name__ == '__main__':\n    from {module} import main\n    main()"  # workers import it too
            (programs / name).write_text(f"#!{sys.executable}\n{code}\n")
            (programs / name).chmod(0o755)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment}

    def start(self, *words: object, **more: str) -> subprocess.Popen[str]:
        """Start a command in a session of its own."""
        command = [str(word) for word in words]
        if command[0] in COMMANDS:
            command[0] = str(self.folder / "bin" / command[0])
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, **more},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __call__(self, *words: object, status: int = 0) -> str:
        """Run a command to its end. Returns what it prints."""
        process = self.start(*words)
        said, _ = process.communicate(timeout=1200)
        assert process.returncode == status, said
        return said

    def agent(self, sweep: str, *options: str) -> subprocess.Popen[str]:
        """Start an agent, as `vit-sweep wandb` says."""
        words = [sys.executable, "-m", "wandb", "agent", "--forward-signals", *options, sweep]
        return self.start(*words, WANDB_AGENT_DISABLE_FLAPPING="true", WANDB_SILENT="false")
