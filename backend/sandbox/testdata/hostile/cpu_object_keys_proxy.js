// class: cpu memory thrown
Object.keys(new Proxy({}, { ownKeys: () => ({ length: 2 ** 32 - 1, get 0() { return 'a' } }) }))
