// class: cpu
const a = 'é'.repeat(1e6), b = a + 'x'; for (;;) a.localeCompare(b), a.normalize('NFD') < b
