"""The graphs of LangGraph that ours is measured beside: layers of nodes, each of which needs all of the layer before it.

Called with a database, a file and `node` or `tool`. For each line `LAYERS WIDTH TIMES` on its standard input it runs such a
graph so often, saved by the SQLite saver after every layer, and prints the CPU seconds that it took.
"""

import operator
import sqlite3
import sys
import time
import uuid
from typing import Annotated, TypedDict

from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

DATABASE, FILE, KIND = sys.argv[1:]


class State(TypedDict):
    said: Annotated[list, operator.add]


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


def node(_state):
    if KIND == "tool":
        return {"said": [read_file.invoke({"path": FILE})]}
    with open(FILE) as file:
        return {"said": [file.read()]}


def graph(layers, width):
    made = StateGraph(State)
    before = [START]
    for layer in range(layers):
        names = [f"n{layer}_{place}" for place in range(width)]
        for name in names:
            made.add_node(name, node)
            made.add_edge(before if len(before) > 1 else before[0], name)
        before = names
    made.add_edge(before if len(before) > 1 else before[0], END)
    saver = SqliteSaver(sqlite3.connect(DATABASE, check_same_thread=False))
    saver.setup()
    return made.compile(checkpointer=saver)


made = {}
print("ready", flush=True)
for line in sys.stdin:
    layers, width, times = (int(word) for word in line.split())
    if (layers, width) not in made:
        made[layers, width] = graph(layers, width)
    start = time.process_time()
    for _ in range(times):
        thread = {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": layers + 10}
        state = made[layers, width].invoke({"said": []}, thread, durability="sync")
        assert len(state["said"]) == layers * width
    print(time.process_time() - start, flush=True)
