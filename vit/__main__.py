"""`python -m vit` prints the commands of the suite."""

COMMANDS = {
    "vit-train": "train one Vision Transformer and record the run",
    "vit-sweep": "train every variant of a study with several seeds",
    "vit-report": "write the report of a study",
}

if __name__ == "__main__":
    for command, about in COMMANDS.items():
        print(f"{command:10}  {about}; see {command} --help")
