"""A graph of LangGraph: a plan is 4 nodes, each of them saved by the SQLite saver before the next begins.

For each line with a number N on its standard input it runs N plans, and prints the seconds that they took.
"""

import operator
import sqlite3
import sys
import time
import uuid
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

STEPS = ["strategize", "execute", "review", "apply"]


class State(TypedDict):
    done: Annotated[list, operator.add]


graph = StateGraph(State)
before = START
for step in STEPS:
    graph.add_node(step, lambda state, step=step: {"done": [step]})
    graph.add_edge(before, step)
    before = step
graph.add_edge(before, END)
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
saver.setup()
plan = graph.compile(checkpointer=saver)

print("ready", flush=True)
for line in sys.stdin:
    start = time.monotonic()
    for _ in range(int(line)):
        thread = {"configurable": {"thread_id": str(uuid.uuid4())}}
        state = plan.invoke({"done": []}, thread, durability="sync")
        assert state["done"] == STEPS
    print(time.monotonic() - start, flush=True)
