// class: memory cpu thrown
const l = []; for (;;) { const a = []; a.length = 2 ** 32 - 1; a.fill(1, 0, 1e6); l.push(a) }
