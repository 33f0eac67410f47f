# Peer of the cluster benchmark: reads float32 rows from a file, prints seconds and labels.
import sys, time
import numpy as np
from sklearn.cluster import DBSCAN
path, n, dim, eps, min_pts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
x = np.fromfile(path, dtype=np.float32).reshape(n, dim)
a = x[:2048]
t = time.process_time()
for _ in range(4):
    a @ a.T
gemm = (time.process_time() - t) / 4
print("gemm", 2 * 2048 * 2048 * dim / gemm / 1e9)
t = time.process_time()
labels = DBSCAN(eps=eps, min_samples=min_pts, metric="cosine", algorithm="brute", n_jobs=1).fit(x).labels_
print("dbscan", time.process_time() - t)
print("labels", " ".join(map(str, labels)))
