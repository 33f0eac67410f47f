// class: memory output cpu thrown ok
const l = []; try { for (;;) l.push(new Uint8Array(1e5)) } catch {} try { for (;;) l.push({}) } catch {} return 'x'.repeat(1000)
