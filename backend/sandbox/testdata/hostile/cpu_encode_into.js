// class: cpu memory
const s = '\u{10ffff}'.repeat(2e6); for (;;) new TextEncoder().encode(s)
