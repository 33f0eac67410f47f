// class: ok thrown
// output: "alive"
for (const x of [5e-324, 1.7976931348623157e308, NaN, -0, 2 ** 53, 1e21]) for (const f of ['toFixed', 'toPrecision', 'toExponential', 'toString', 'toLocaleString']) for (const a of [0, 1, 2, 36, 37, 100, 101, -1, NaN, Infinity]) try { x[f](a) } catch {} return 'alive'
