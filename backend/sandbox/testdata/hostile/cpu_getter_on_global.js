// class: cpu
Object.defineProperty(globalThis, 'zz', { get() { for (;;) {} } }); return zz
