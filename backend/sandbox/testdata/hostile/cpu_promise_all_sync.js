// class: cpu memory
await Promise.all((function* () { for (;;) yield 1 })())
