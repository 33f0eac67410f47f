// class: cpu memory
await Array.fromAsync({ async *[Symbol.asyncIterator]() { for (;;) yield 1 } })
