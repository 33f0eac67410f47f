// class: cpu memory
const s = 'x'.repeat(5e6); for (;;) atob(btoa(s))
