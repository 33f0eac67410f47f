// class: memory cpu
let o = { a: new Uint8Array(1e6) }; const l = []; for (;;) l.push(structuredClone(o))
