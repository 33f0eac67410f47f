// class: memory thrown ok cpu
const l = []; try { for (;;) l.push(new Uint8Array(1e5)) } catch {} try { for (;;) l.push({}) } catch {} for (let i = 0; i < 100; i++) try { console.log('z'.repeat(5000), { l: 1 }) } catch {} return 1
