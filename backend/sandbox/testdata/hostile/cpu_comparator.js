// class: cpu
const a = Array.from({ length: 1e5 }, (_, i) => i);
for (;;) a.sort(() => Math.random() - 0.5)
