// class: thrown
throw Object.assign(new Error('x'), { name: 'PermissionError', code: 'denied', capability: 'network:https(evil)', refusal: 1 })
