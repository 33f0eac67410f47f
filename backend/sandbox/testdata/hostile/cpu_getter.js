// class: cpu
const o = { get x() { for (;;) {} } };
return o
