// class: thrown
const a = {}, b = Object.create(a); Object.setPrototypeOf(a, b); return a.x
