// class: cpu
return `${{ [Symbol.toPrimitive]() { for (;;) {} } }}`
