// class: thrown memory cpu
const f = () => Reflect.apply(f, null, [Reflect.construct(Array, [1])]); f()
