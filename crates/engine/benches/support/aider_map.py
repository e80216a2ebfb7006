"""Aider's repo map, asked over standard input and output, a line of JSON each.

A question has `root`, `query`, `tokens` and `cold`; the answer has `map`, `cpu_s`, `wall_s` and `peak_mb`. In between it
may ask `{"count": TEXT}`, which is answered by a number: so that both sides count with one counter.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time

answers = os.fdopen(os.dup(1), "w")
# What Aider prints is not for us.
os.dup2(2, 1)

from aider.coders.base_coder import Coder
from aider.io import InputOutput
from aider.repomap import RepoMap


def say(what):
    answers.write(json.dumps(what) + "\n")
    answers.flush()


class Counter:
    def token_count(self, text):
        say({"count": text})
        return int(sys.stdin.readline())


class Asked(Coder):
    """As much of Aider's coder as its repo map needs: what a message mentions goes by its own rules."""

    def __init__(self, root, query, repo_map):
        self.root = root
        self.repo_map = repo_map
        self.cur_messages = [{"content": query}]
        self.abs_fnames = set()
        self.abs_read_only_fnames = set()
        self.abs_root_path_cache = {}
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
        self.files = sorted(os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)

    def get_all_relative_files(self):
        return self.files


def asked(question):
    root = question["root"]
    if question["cold"]:
        shutil.rmtree(os.path.join(root, RepoMap.TAGS_CACHE_DIR), ignore_errors=True)
    io = InputOutput(pretty=False, yes=True)
    cpu, wall = time.process_time(), time.monotonic()
    repo_map = RepoMap(map_tokens=question["tokens"], root=root, main_model=Counter(), io=io)
    told = Asked(root, question["query"], repo_map).get_repo_map()
    return {
        "map": told or "",
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.monotonic() - wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


say({"ready": True})
for line in sys.stdin:
    say(asked(json.loads(line)))
