// class: cpu memory
// memory: 128
// cpu: 500ms
// within: 6s
const u = new Uint8Array(60e6); for (;;) u.sort()
