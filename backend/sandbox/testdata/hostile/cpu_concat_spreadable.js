// class: cpu memory thrown
const o = { length: 2 ** 32 - 2, [Symbol.isConcatSpreadable]: true }; return [].concat(o).length
