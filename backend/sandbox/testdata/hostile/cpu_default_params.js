// class: cpu
const f = (a = (() => { for (;;) {} })()) => a; f()
