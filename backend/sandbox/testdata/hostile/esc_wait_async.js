// class: ok thrown timeout
// wall: 500ms
if (typeof SharedArrayBuffer === 'undefined' || typeof Atomics === 'undefined' || !Atomics.waitAsync) return 'none'; const r = Atomics.waitAsync(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e9); return typeof r
