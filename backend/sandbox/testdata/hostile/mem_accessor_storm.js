// class: memory cpu
const o = {}; for (let i = 0; ; i++) Object.defineProperty(o, 'k' + i, { get: () => i, set: () => i, configurable: true })
