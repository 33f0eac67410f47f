// class: ok thrown
// output: "alive"
const b = new Uint8Array([0xf4, 0x90, 0x80, 0x80, 0xed, 0xa0, 0x80, 0xc0, 0x80, 0xff]); for (const e of ['utf-8', 'utf-16le', 'latin1', 'x'.repeat(1e5), '\0']) for (const o of [undefined, { fatal: true }, { get fatal() { throw 1 } }, { ignoreBOM: 1 }]) try { new TextDecoder(e, o).decode(b); new TextDecoder(e, o).decode(b.subarray(3).buffer) } catch {} return 'alive'
