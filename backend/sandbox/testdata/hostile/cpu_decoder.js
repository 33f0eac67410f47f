// class: cpu memory thrown
const b = new Uint8Array(8e6).fill(0xf0); for (;;) new TextDecoder().decode(b)
