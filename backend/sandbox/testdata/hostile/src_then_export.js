// class: ok thrown cpu compile
export function then(r) { for (;;) {} }
export default () => 1
