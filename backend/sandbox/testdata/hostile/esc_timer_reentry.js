// class: ok
// output: 0
let n = 0; const id = setTimeout(() => n++, 0); for (const x of [id, String(id), { valueOf() { clearTimeout(id); return id } }, NaN, -1, 2 ** 53, Symbol.iterator]) try { clearTimeout(x) } catch {} await new Promise((r) => setTimeout(r, 3)); return n
