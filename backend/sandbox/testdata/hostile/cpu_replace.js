// class: cpu
let s = 'a'.repeat(1e5);
for (;;) s = s.replace(/a/g, 'a')
