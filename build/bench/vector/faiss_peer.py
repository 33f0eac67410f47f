"""faiss on one thread, as a peer: FlatIP, and BinaryFlat with exact scores of 400 candidates.

Arguments: file of vectors, file of queries (float32), values a vector. Then each line on the
input is "flat N" or "binary N": it answers with the CPU milliseconds a query and the ids that
the first N queries found.
"""
import json
import sys
import time

import faiss
import numpy as np

faiss.omp_set_num_threads(1)
dims = int(sys.argv[3])
data = np.memmap(sys.argv[1], "<f4", "r").reshape(-1, dims)
queries = np.fromfile(sys.argv[2], "<f4").reshape(-1, dims)
flat = faiss.IndexFlatIP(dims)
binary = faiss.IndexBinaryFlat(dims)
mean = data[:: max(1, len(data) // 8192)].mean(0)
for at in range(0, len(data), 20000):
    part = np.ascontiguousarray(data[at : at + 20000])
    flat.add(part)
    binary.add(np.packbits(part > mean, axis=1))
vectors = faiss.rev_swig_ptr(flat.get_xb(), len(data) * dims).reshape(-1, dims)
codes = np.packbits(queries > mean, axis=1)


def run_flat(i):
    return flat.search(queries[i : i + 1], 10)[1][0]


def run_binary(i):
    near = binary.search(codes[i : i + 1], 400)[1][0]
    scores = vectors[near] @ queries[i]
    return near[np.argsort(-scores)[:10]]


print("ready", flush=True)
for line in sys.stdin:
    name, n = line.split()
    run = {"flat": run_flat, "binary": run_binary}[name]
    start = time.process_time()
    ids = [run(i) for i in range(int(n))]
    cpu = (time.process_time() - start) * 1000 / int(n)
    print(json.dumps({"cpu": cpu, "ids": [list(map(int, r)) for r in ids]}), flush=True)
