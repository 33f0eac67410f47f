// class: cpu
const s = 'İß'.repeat(3e5); for (;;) s.toLowerCase().toUpperCase().toLocaleUpperCase()
