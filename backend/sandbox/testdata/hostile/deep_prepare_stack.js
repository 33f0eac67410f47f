// class: thrown
Error.prepareStackTrace = () => { throw new Error('again') }; throw new Error('x')
