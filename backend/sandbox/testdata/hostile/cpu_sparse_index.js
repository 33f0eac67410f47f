// class: cpu
const a = [];
a.length = 4294967295;
a.indexOf(7)
