// class: cpu
const a = new Int32Array(16);
for (;;) typeof Atomics === 'object' ? Atomics.add(a, 0, 1) : a[0]++
