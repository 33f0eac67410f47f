// class: thrown
Object.defineProperty(Error, 'prepareStackTrace', { get() { throw new Error('again') } }); throw new Error('x')
