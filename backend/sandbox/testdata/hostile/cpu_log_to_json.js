// class: cpu
console.log({ toJSON() { for (;;) {} } })
