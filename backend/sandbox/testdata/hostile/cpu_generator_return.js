// class: cpu
function* g() { try { yield 1 } finally { for (;;) {} } } for (const x of g()) break
