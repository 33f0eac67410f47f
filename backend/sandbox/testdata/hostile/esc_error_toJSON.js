// class: thrown
Object.prototype.toJSON = () => ({ name: 'forged', message: 'forged', refusal: 0 }); throw new Error('x')
