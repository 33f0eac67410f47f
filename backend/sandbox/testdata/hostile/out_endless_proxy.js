// class: output thrown memory cpu
const mk = () => new Proxy({}, { ownKeys: () => ['a'], getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: (t, k) => k === 'a' ? mk() : undefined }); return mk()
