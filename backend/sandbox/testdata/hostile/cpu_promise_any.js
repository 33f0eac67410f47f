// class: cpu memory thrown
await Promise.any({ [Symbol.iterator]: () => ({ next: () => ({ done: false, value: Promise.reject(1) }) }) })
