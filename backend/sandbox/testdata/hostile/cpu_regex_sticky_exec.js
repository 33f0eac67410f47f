// class: cpu
const r = /a|/y; r.exec = function () { this.lastIndex = 0; return { index: 0, 0: '', length: 1 } }; for (;;) 'a'.replace(r, '')
