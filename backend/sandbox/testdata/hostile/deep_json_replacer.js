// class: thrown output
const o = { toJSON() { return { o } } };
return o
