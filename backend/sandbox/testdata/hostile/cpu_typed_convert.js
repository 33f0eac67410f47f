// class: cpu memory
const u = new Float64Array(1e6); for (;;) new Uint8ClampedArray(new Float32Array(u))
