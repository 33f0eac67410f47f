// class: cpu
class E extends Array { static get [Symbol.species]() { for (;;) {} } }
new E(1, 2).map((x) => x)
