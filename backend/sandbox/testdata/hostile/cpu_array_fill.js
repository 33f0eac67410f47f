// class: cpu memory
for (;;) new Uint8Array(20e6).fill(1)
