// class: cpu
function again() { queueMicrotask(again) }
again();
await new Promise(() => {})
