// class: thrown memory
throw Object.assign(new Error('out of memory'), { name: 'InternalError' })
