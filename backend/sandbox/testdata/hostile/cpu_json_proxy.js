// class: cpu memory
JSON.stringify(new Proxy([], { get(t, k) { return k === 'length' ? 2 ** 32 : 1 } }))
