// class: memory cpu
const l = []; for (;;) l.push(Proxy.revocable({}, {}))
