// class: cpu memory
const l = []; for (;;) { l.push(new WeakRef({ l })); if (l.length > 1e4) l.length = 0 }
