// class: ok host_denied thrown
Object.defineProperty(Object.prototype, '__proto__', { set(v) { for (;;) {} }, get() { return null } }); try { await helix.state.keys() } catch {} return 1
