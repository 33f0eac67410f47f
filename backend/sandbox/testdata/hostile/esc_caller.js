// class: ok
// output: []
const found = [];
function sloppy() { for (const k of ['caller', 'callee', 'arguments']) for (const o of [sloppy, arguments]) try { const v = o[k]; if (typeof v === 'function' && v !== sloppy) found.push(k) } catch {} return 'x' }
console.log({ toJSON: sloppy });
await helix.fetch({ toString: sloppy }).catch(sloppy);
setTimeout(sloppy, 0);
structuredClone({ get x() { return sloppy() } });
await new Promise((r) => setTimeout(r, 2));
return found
