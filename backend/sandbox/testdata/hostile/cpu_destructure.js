// class: cpu
const it = { [Symbol.iterator]() { return { next() { return { done: false } } } } };
const [...rest] = { [Symbol.iterator]() { return { next() { for (;;) {} } } } };
return [it, rest]
