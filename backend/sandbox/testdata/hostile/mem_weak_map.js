// class: memory cpu
const m = new WeakMap(), l = []; for (;;) { const k = {}; l.push(k); m.set(k, { k, big: [1, 2, 3] }) }
