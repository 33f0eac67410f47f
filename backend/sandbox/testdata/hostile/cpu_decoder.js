// class: cpu memory thrown
const b = new Uint8Array(4e6).fill(0xf0); for (;;) new TextDecoder().decode(b)
