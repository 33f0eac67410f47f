// class: memory cpu
function* g() { const x = new Array(100).fill(1); yield x } const l = []; for (;;) { const i = g(); i.next(); l.push(i) }
