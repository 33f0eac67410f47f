// class: output thrown cpu memory
const o = { get a() { return { get a() { return o } } } }; return o
