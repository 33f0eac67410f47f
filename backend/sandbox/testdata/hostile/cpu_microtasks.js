// class: cpu
const f = () => Promise.resolve().then(f);
await f();
function again() { queueMicrotask(again) }
again()
