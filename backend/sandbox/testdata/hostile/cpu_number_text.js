// class: cpu
const s = '0.' + '1'.repeat(1e6) + 'e-1000000'; for (;;) Number(s), parseFloat(s)
