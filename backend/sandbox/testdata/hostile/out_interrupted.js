// class: thrown
throw Object.assign(new Error('interrupted'), { name: 'InternalError' })
