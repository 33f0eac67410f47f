// class: memory cpu
const l = []; const t = (s) => s; for (let i = 0; ; i++) l.push(t`a${i}b`, `x${'y'.repeat(100)}${i}`)
