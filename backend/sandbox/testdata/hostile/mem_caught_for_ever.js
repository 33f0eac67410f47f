// class: memory cpu
const l = []; for (;;) try { l.push('x'.repeat(1e6) + l.length) } catch { try { l.push(1) } catch {} }
