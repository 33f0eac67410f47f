// class: cpu
const endless = { [Symbol.asyncIterator]() { return { next() { return { value: 1, done: false } } } } };
for await (const x of endless) {}
