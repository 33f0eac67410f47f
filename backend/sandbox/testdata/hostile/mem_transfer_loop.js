// class: memory cpu thrown
const l = []; let b = new ArrayBuffer(1e6); for (;;) { l.push(b = b.transfer(b.byteLength + 1e6), new ArrayBuffer(1e6)) }
