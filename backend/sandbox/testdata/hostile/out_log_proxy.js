// class: ok thrown
// output: 1
const r = Proxy.revocable({}, {}); r.revoke(); console.log(r.proxy); helix.log(r.proxy, r.proxy, r.proxy); return 1
