// class: ok thrown output cpu
Object.prototype.then = function (r) { r('hijacked') };
const out = [];
try { out.push(await helix.state.keys()) } catch (e) { out.push('refused') }
delete Object.prototype.then;
return out.length
