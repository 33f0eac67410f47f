// class: cpu memory thrown
const s = '9'.repeat(4e6); for (;;) BigInt(s).toString()
