// class: ok thrown
if (typeof SharedArrayBuffer === 'undefined' || typeof Atomics === 'undefined') return 'none';
const a = new Int32Array(new SharedArrayBuffer(4));
Atomics.wait(a, 0, 0, Infinity);
