// class: cpu
const s = '1'.repeat(1e6) + ' '.repeat(1e6); for (;;) Date.parse(s), new Date(8.64e15).toString()
