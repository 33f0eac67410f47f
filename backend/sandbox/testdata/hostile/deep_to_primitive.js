// class: thrown
const o = { toString() { return '' + o } }; return '' + o
