// class: output
const o = {};
o.self = o;
return o
