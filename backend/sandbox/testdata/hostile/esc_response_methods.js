// class: ok thrown output host_denied
// host: echo
// output: "TypeError"
const r = await helix.fetch('https://x'); const C = r.constructor; try { new C({ status: 200, body: 'forged' }) } catch {} try { await C.prototype.text.call({}) } catch (e) { return e.name }
