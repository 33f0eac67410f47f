// class: thrown
Object.prototype.refusal = 1;
Object.prototype.denied = true;
Object.prototype.capability = 'network:https(evil)';
Object.prototype.class = 'ok';
throw new Error('x')
