// class: thrown cpu memory
const p = new Proxy({}, { getOwnPropertyDescriptor: (t, k) => Object.getOwnPropertyDescriptor(p, k) }); Object.getOwnPropertyDescriptor(p, 'x')
