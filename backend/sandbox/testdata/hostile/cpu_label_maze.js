// class: cpu
a: for (;;) { b: for (;;) { c: do { if (Math.random() < 2) continue a } while (1); break b } }
