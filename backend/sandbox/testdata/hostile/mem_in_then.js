// class: memory cpu thrown
const l = []; await Promise.reject(1).catch(() => { for (;;) l.push(new Uint8Array(1e5)) })
