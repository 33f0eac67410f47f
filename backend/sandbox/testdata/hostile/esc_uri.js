// class: ok thrown
// output: "alive"
// within: 6s
for (const s of ['%', '%E0%A4%A', '%c0%80', '%'.repeat(1e6), '\ud800']) for (const f of [decodeURIComponent, encodeURIComponent, escape, unescape]) try { f(s) } catch {} return 'alive'
