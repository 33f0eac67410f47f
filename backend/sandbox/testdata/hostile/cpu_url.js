// class: cpu memory
const s = 'https://x/' + '../a%41é/'.repeat(5e4); for (;;) new URL(s).href
