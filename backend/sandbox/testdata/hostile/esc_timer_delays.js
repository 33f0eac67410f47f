// class: ok thrown
const ids = []; for (const d of [NaN, Infinity, -Infinity, 2 ** 31, 2 ** 63, 1e308, '5', { valueOf() { return 1 } }, null]) ids.push(setTimeout(() => { throw 1 }, d === null ? 1e9 : d instanceof Object ? 1e9 : d === '5' ? 1e9 : d)); return ids.length
