// class: memory cpu
const l = []; const f = () => { try { for (;;) l.push(new Uint8Array(1e5)) } finally { for (;;) try { l.push(new Uint8Array(64)) } catch {} } }; f()
