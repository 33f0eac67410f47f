// class: cpu memory
const s = '\ufdfa'.repeat(2e5); for (;;) s.normalize('NFKD')
