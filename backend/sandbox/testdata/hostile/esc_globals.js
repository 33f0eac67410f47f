// class: ok
// output: []
const allowed = new Set(('AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean DOMException DataView Date DisposableStack Error EvalError ' +
  'FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array InternalError Intl Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ' +
  'ReferenceError Reflect RegExp Set SharedArrayBuffer String SuppressedError Symbol SyntaxError TextDecoder TextEncoder TypeError URIError URL URLSearchParams Uint16Array Uint32Array Uint8Array ' +
  'Uint8ClampedArray WeakMap WeakRef WeakSet atob btoa clearTimeout console crypto decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval globalThis helix isFinite isNaN log params ' +
  'parseFloat parseInt performance queueMicrotask require setTimeout skillAuthor skillName skillVersion structuredClone undefined unescape').split(' '));
return Reflect.ownKeys(globalThis).map(String).filter((k) => !allowed.has(k) && !k.startsWith('Symbol('))
