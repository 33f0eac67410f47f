// class: ok thrown cpu
Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1 }; Map.prototype.get = () => [() => 1, () => 1]; console.log('a', 'b'); setTimeout(() => 1, 0, 1); try { await helix.state.keys() } catch {} return 1
