// class: thrown
// waits: H4
Object.prototype.toJSON = () => ({ name: 'forged', message: 'forged', refusal: 0 }); throw new Error('x')
