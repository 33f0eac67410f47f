// class: cpu thrown
const p = new Proxy({}, {}), o = Object.create(p);
Object.setPrototypeOf(p, new Proxy(o, {}));
return p.x
