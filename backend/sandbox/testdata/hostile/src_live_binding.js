// class: ok thrown compile
let f = () => 1
export { f as default }
f = 7
