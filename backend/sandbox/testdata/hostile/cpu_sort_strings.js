// class: cpu
const a = Array.from({ length: 2e5 }, (_, i) => 'x'.repeat(100) + i); for (;;) a.sort().reverse()
