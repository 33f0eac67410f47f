// class: ok thrown
// output: "alive"
const r = /(a)(b)(c)/g; const s = 'abc'.repeat(1000); const out = s.replace(r, () => { r.compile ? r.compile('(x)'.repeat(100)) : 0; r.lastIndex = 2 ** 31; return '' }); return 'alive'
