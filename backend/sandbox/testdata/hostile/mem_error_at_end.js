// class: memory thrown cpu
const l = []; try { for (;;) l.push(new Uint8Array(1e5)) } catch {} try { for (;;) l.push({}) } catch {} throw new Error('y'.repeat(1000))
