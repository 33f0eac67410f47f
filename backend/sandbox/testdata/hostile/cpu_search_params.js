// class: cpu memory
const s = 'a=1&'.repeat(1e5); for (;;) { const p = new URLSearchParams(s); p.sort(); String(p) }
