// class: thrown ok cpu compile
export default { get default() { for (;;) {} }, then(r) { r(1) } }
