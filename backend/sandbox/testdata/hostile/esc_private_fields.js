// class: ok thrown
// host: echo
const r = await helix.fetch('https://x');
const steal = class extends (function (o) { return o }) { #r; static has(o) { return #r in o } };
return [Object.isFrozen(helix), steal.has(r), Object.keys(r)]
