// class: memory cpu
for (let i = 0; ; i++) globalThis['\u{10000}'.repeat(1e3) + i] = 1
