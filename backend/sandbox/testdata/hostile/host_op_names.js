// class: ok thrown
// host: echo
// output: 11
const out = []; for (const f of [() => helix.fs.readText('\0'), () => helix.fs.readText('\ud800'), () => helix.fs.list('../'.repeat(1e4)), () => helix.state.get('__proto__'), () => helix.state.set('k', undefined), () => helix.state.set('k', NaN), () => helix.tool('x', { __proto__: null }), () => helix.fetch('https://x', { method: '\r\nX: y' }), () => helix.fetch('https://x', { headers: { '\0': '\r\n' } }), () => helix.fetch('https://x', { timeoutMs: -1 }), () => helix.fetch('https://x', { timeoutMs: 1e308 })]) try { await f(); out.push(1) } catch (e) { out.push(0) } return out.length
