// class: ok cpu
const f = () => Promise.resolve().then(f);
Promise.resolve().then(() => Promise.resolve()).then(f);
return 1
