// class: cpu memory thrown
for (;;) try { BigInt.asUintN(2 ** 53 - 1, -1n) } catch {}
