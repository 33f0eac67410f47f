// class: cpu
const p = new Proxy(function () {}, { get(t, k, r) { return k === 'prototype' ? t.prototype : Reflect.get(t, k, r) } });
const o = new Proxy({}, { getPrototypeOf() { return o } });
return o instanceof p
