// class: ok thrown
// output: "alive"
for (const x of [8.64e15, -8.64e15, 8.64e15 + 1, NaN, 1e308, -0]) { const d = new Date(x); for (const k of Object.getOwnPropertyNames(Date.prototype)) try { d[k](1e308, -1e308, NaN, 2 ** 31) } catch {} try { d.toLocaleString('x'.repeat(1e5), { timeZone: '../../etc/passwd' }) } catch {} } return 'alive'
