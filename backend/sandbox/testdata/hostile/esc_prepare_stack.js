// class: thrown
Error.prepareStackTrace = (e, s) => s;
throw new Error('x')
