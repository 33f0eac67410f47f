# Peer of the cluster benchmark: reads float32 rows from a file, prints seconds and labels.
import sys, time
import numpy as np
from sklearn.cluster import DBSCAN, KMeans
path, n, dim, eps, min_pts, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
x = np.fromfile(path, dtype=np.float32).reshape(n, dim)
unit = x / np.linalg.norm(x, axis=1, keepdims=True)
for seed in range(5):
    t = time.process_time()
    labels = KMeans(n_clusters=k, n_init=1, max_iter=100, tol=0, random_state=seed).fit(unit).labels_
    print("kmeans", time.process_time() - t)
    print("kmeans_labels", " ".join(map(str, labels)))
if eps == 0:
    sys.exit()
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
