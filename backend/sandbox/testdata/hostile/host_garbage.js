// class: thrown ok trap
// host: garbage
const out = []; for (const f of [() => helix.state.keys(), () => helix.fetch('https://x'), () => helix.fs.list('/'), () => helix.tool('x'), () => helix.secret('x')]) try { await f(); out.push(1) } catch (e) { out.push(e.name) } return out
