// class: memory cpu
const r = new FinalizationRegistry(() => 1), l = []; for (;;) { const o = {}; l.push(o); r.register(o, new Array(10).fill(1), o) }
