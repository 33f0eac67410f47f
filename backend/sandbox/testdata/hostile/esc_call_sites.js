// class: ok thrown
// output: []
const seen = new Set();
Error.prepareStackTrace = (e, frames) => {
  for (const f of frames) for (const m of ['getFunction', 'getThis', 'getEvalOrigin', 'getPromiseIndex', 'getFileName', 'getFunctionName']) try { const v = f[m](); if (typeof v === 'function' || typeof v === 'object' && v) seen.add(m + ':' + typeof v + ':' + (v.name ?? '')) } catch {}
  return frames
};
const probe = () => { void new Error('x').stack; return 'x' };
console.log({ toJSON: probe }, { toString: probe });
await helix.state.set('k', { toJSON: probe }).catch(probe);
await helix.fetch({ toString: probe }, { headers: { a: { toString: probe } } }).catch(probe);
new URL('https://x/?a', { toString: () => (probe(), 'https://y') });
structuredClone({ get x() { return probe() } });
await new Promise((r) => setTimeout(() => r(probe()), 0));
return [...seen].filter((s) => /^(getThis|getFunction):function:(call|deliver|enter|begin|done|fail|fire|host|writeLog|convert|locate)$/.test(s))
