// class: ok thrown compile cpu
export default await new Promise((r) => r(() => 1))
