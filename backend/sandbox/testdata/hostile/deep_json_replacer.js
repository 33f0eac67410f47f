// class: thrown output
// within: 15s
const o = { toJSON() { return { o } } };
return o
